"""Advice for people, and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..units import format_size
from .advice import Advice
from .trials import Trial


def render(advice: Advice, place: str) -> Iterator[str]:
    """Yields the edits that pass, the cheapest first, then each edit by itself."""
    if not advice.runs:
        yield "advice: none is needed, the recipe is within " + format_size(advice.budget)
        return
    yield f"advice: {advice.runs} other recipes ran on {place}, for {format_size(advice.budget)}"
    for number, trial in enumerate(advice.suggested, 1):
        yield f"  {number}. {_numbers(trial, advice)}{_operations(trial)}"
        for edit in trial.edits:
            yield f"       {edit.option}   {edit.code}"
    if not advice.suggested:
        yield "  nothing that was tried passes"
        if advice.nearest is not None:
            yield f"  the nearest: {_numbers(advice.nearest, advice)}"
            for edit in advice.nearest.edits:
                yield f"       {edit.option}   {edit.code}"
    yield "  each edit by itself:"
    for trial in advice.alone:
        passing = "passes" if trial.passes(advice.budget) else "does not pass"
        told = trial.reason if trial.peak_bytes is None else _numbers(trial, advice)
        yield f"    {trial.edits[0].option}: {told}; {passing}"


def _numbers(trial: Trial, advice: Advice) -> str:
    peak = trial.peak_bytes or 0
    text = f"peak {format_size(peak)}"
    if advice.peak_bytes is None:
        return text
    saved = advice.peak_bytes - peak
    return f"{text}, saves {format_size(saved)}" if saved >= 0 else f"{text}, {-saved:,} B more"


def _operations(trial: Trial) -> str:
    """Returns the operations that a suggestion recomputes, and their share of the step."""
    if not trial.recomputes:
        return "; recomputes nothing"
    if trial.flops is None:
        return "; its operations could not be counted"
    again = trial.flops.recomputed
    plain = trial.flops.total - again
    return f"; recomputes {again:,} FLOPs a step, {100 * again / plain:.1f} % more"


def to_dict(advice: Advice) -> dict[str, Any]:
    """Returns the advice as JSON values."""
    return {
        "budget_bytes": advice.budget,
        "runs": advice.runs,
        "suggested": [_trial(trial, advice) for trial in advice.suggested],
        "nearest": None if advice.nearest is None else _trial(advice.nearest, advice),
        "alone": [_trial(trial, advice) for trial in advice.alone],
    }


def _trial(trial: Trial, advice: Advice) -> dict[str, Any]:
    known = advice.peak_bytes is not None and trial.peak_bytes is not None
    return {
        "edits": [{"option": edit.option, "code": edit.code} for edit in trial.edits],
        "passes": trial.passes(advice.budget),
        "peak_bytes": trial.peak_bytes,
        "saved_bytes": (advice.peak_bytes or 0) - (trial.peak_bytes or 0) if known else None,
        "reason": trial.reason or None,
        "flops": trial.flops.total if trial.flops else None,
        "recomputed_flops": trial.flops.recomputed if trial.flops else None,
    }
