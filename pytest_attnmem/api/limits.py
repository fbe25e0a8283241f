"""The limits of regions and checks, and the lines of the program that gave them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from ..budgets.budget import BudgetSpec
from ..budgets.parsing import parse
from ..errors import BudgetError, SizeError
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import Source
from ..units import parse_size


def parse_call_limit(
    what: str, limit: Any, options: dict[str, Any], symbols: dict[str, Any]
) -> BudgetSpec:
    """Returns the budget of a region or a check, which have fewer options than the marker.

    Raises:
        AttnMemError: the limit cannot be read, or ``what`` does not take the option.
    """
    for name in ("backend", "device", "warmup"):
        if name in symbols:
            raise BudgetError(f"a {what} takes no {name}")
    spec = parse((limit,), {**options, **symbols})
    if spec.contracts:
        raise BudgetError(
            f"a {what} takes no growth contract: mark the test with {spec.text!r}, or use"
            " attnmem.growth"
        )
    return replace(spec, where=caller_line())


def caller_line() -> str:
    """Returns the innermost line outside this package, as ``test_attn.py:12``."""
    frame = sys._getframe()
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def check_name(name: object, limit: object) -> None:
    """Checks the name of a region, which comes before its limit.

    Raises:
        BudgetError: it is not a line of text, or it is a limit.
    """
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise BudgetError(f"a region needs a name, one line of text; got {name!r:.40}")
    if limit is None and _is_size(name):
        raise BudgetError(f"a region's name comes first: region('forward', {name!r})")


def _is_size(text: str) -> bool:
    try:
        parse_size(text)
    except SizeError:
        return False
    return True


def device_facts(measurement: Measurement) -> Source:
    """Returns the symbols of the measured device, which formulas may read."""
    return Source(f"the {measurement.backend} backend", measurement.symbols)
