"""Who held the memory: one more run of what was over, under a tracker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ..budgets.verdict import Outcome, Verdict, with_held
from ..errors import AttnMemError, stops
from ..measurement.measurement import Measurement
from ..measurement.timeline import ITSELF
from ..units import format_size


def wanted(explain: str, verdict: Verdict) -> bool:
    """Whether ``--attnmem-explain`` asks who held the memory that a verdict is on."""
    if verdict.outcome is Outcome.OVER:
        return explain != "off"
    measured = verdict.measurement
    return explain == "all" and measured is not None and measured.unmeasured is None


def attributed(verdict: Verdict, trace: Callable[[], Measurement] | None) -> Verdict:
    """The verdict with what was held at the peak, from one more run; or with why that is unknown.

    The tracker sees the tensors of a program. What kernels keep for themselves, and what a
    compiler saved that the tracker's eager run did not, is told as the difference. However the
    run ends, the verdict stands; an error that stops the session is raised.
    """
    measured = verdict.measurement
    if measured is None or measured.out_of_memory is not None:
        return verdict
    if measured.held or measured.left:  # known from the run itself
        at_end = verdict.budget is not None and verdict.budget.metric == "retained"
        known = replace(measured, held=measured.left) if at_end else measured
        return with_held(verdict, _traced_too(known, trace, at_end))
    try:
        traced = (trace or _untraceable)()
    except AttnMemError as error:
        why = str(error)
    except stops():
        raise
    except BaseException as error:
        why = raised(error)
    else:
        metric = verdict.budget.metric if verdict.budget else "peak"
        held = traced.left if metric == "retained" else traced.held
        note = _difference(measured, traced, "retained" if metric == "retained" else "peak")
        traced = of_second_run(traced, note)
        return with_held(verdict, replace(traced, held=held, held_note=note))
    note = " ".join(f"what was held is not known: {why}".split())
    return with_held(verdict, replace(measured, held_note=note[:200]))


def _traced_too(
    known: Measurement, trace: Callable[[], Measurement] | None, at_end: bool
) -> Measurement:
    """Returns the measurement with the modules and shapes of a second run that holds the same."""
    try:
        traced = (trace or _untraceable)()
    except stops():
        raise
    except BaseException:
        return known
    told = traced.left if at_end else traced.held
    same = Counter(one.origin for one in told) == Counter(one.origin for one in known.held)
    return replace(known, held=told) if same else known


def of_second_run(traced: Measurement, note: str = "") -> Measurement:
    """The measurement, whose timeline says how it was seen, and what it does not account for."""
    if traced.timeline is None:
        return traced
    run = "the second run"
    seen = note if note.startswith(run) else ", ".join(filter(None, (run, note.replace(run, "it"))))
    told = seen + traced.timeline.note.removeprefix(ITSELF)
    return replace(traced, timeline=replace(traced.timeline, note=told))


def raised(error: BaseException) -> str:
    """How a second run ended that did not come to its end."""
    return f"the second run raised {type(error).__name__}" + (f": {error}" if str(error) else "")


def _untraceable() -> Measurement:
    raise AttnMemError("a region runs again only with its test")


def _difference(measured: Measurement, traced: Measurement, metric: str) -> str:
    """What the tracker did not see, in one line; empty where it saw as much."""
    all_of_it, seen = measured.value(metric), traced.value(metric)
    if all_of_it is None or seen is None or all_of_it == seen:
        return ""
    if all_of_it > seen:
        unseen = format_size(all_of_it - seen)
        if metric == "retained":
            return (
                f"and {unseen} that the second run did not keep: state of first use, most likely;"
                " warmup=1 leaves it out"
            )
        return (
            f"and {unseen} that the second run did not account for (scratch inside kernels, most"
            " likely)"
        )
    return f"the second run, eager and without scratch, held {format_size(seen)}"
