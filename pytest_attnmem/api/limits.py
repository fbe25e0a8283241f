"""The limits that regions and checks are given, and where in the program that was."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from ..budgets.budget import BudgetSpec
from ..budgets.parsing import parse
from ..errors import BudgetError, SizeError
from ..measurement.measurement import METRICS, Measurement
from ..symbols.attention_shape import Source
from ..units import parse_size

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True


def parse_call_limit(
    what: str, limit: Any, options: dict[str, Any], symbols: dict[str, Any]
) -> BudgetSpec:
    """The budget of a region or a check, which know fewer options than the marker."""
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


def check_metric(metric: str) -> None:
    """Check that a metric exists.

    Raises:
        BudgetError: it does not.
    """
    if metric not in METRICS:
        raise BudgetError(f"unknown metric {metric!r}; expected one of {', '.join(METRICS)}")


def is_size(text: str) -> bool:
    """Whether it reads as one: ``64 MiB``."""
    try:
        parse_size(text)
    except SizeError:
        return False
    return True


def device_facts(measurement: Measurement) -> Source:
    """What formulas may read of the device that was measured."""
    return Source(f"the {measurement.backend} backend", measurement.symbols)
