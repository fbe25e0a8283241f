"""The functions of the ``attnmem`` fixture, for use without pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..budgets.growth_fit import Growth
from ..budgets.verdict import Verdict
from ..measurement.measurement import Measurement
from .attnmem import AttnMem
from .comparison import Comparison
from .region import Region


def measure(
    fn: Callable[..., Any],
    *args: Any,
    warmup: int = 0,
    backend: str | None = None,
    **kwargs: Any,
) -> Measurement:
    """Calls :meth:`AttnMem.measure` on the default backend, or on ``backend``."""
    return AttnMem().measure(fn, *args, warmup=warmup, backend=backend, **kwargs)


def region(name: str, limit: Any = None, **options: Any) -> Region:
    """Calls :meth:`AttnMem.region` on the default backend, or on ``backend``."""
    return AttnMem().region(name, limit, **options)


def check(measurement: Measurement, limit: Any, **options: Any) -> Verdict:
    """Calls :meth:`AttnMem.check` on a measurement of any backend."""
    return AttnMem().check(measurement, limit, **options)


def growth(fn: Callable[..., Any], **options: Any) -> Growth:
    """Calls :meth:`AttnMem.growth` on the default backend, or on ``backend``."""
    return AttnMem().growth(fn, **options)


def compare(new: Callable[[], Any], base: Callable[[], Any], **options: Any) -> Comparison:
    """Calls :meth:`AttnMem.compare` on the default backend, or on ``backend``."""
    return AttnMem().compare(new, base, **options)
