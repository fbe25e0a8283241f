"""Finds the tensors that held memory: runs the measured code once more, under a tracker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..backends.compile_watch import EAGER
from ..backends.primed_backend import PrimedBackend
from ..budgets.verdict import Outcome, Verdict
from ..errors import AttnMemError, ProgramRefused, stops
from ..measurement.held import Held
from ..measurement.measurement import Measurement
from ..measurement.program_state import ProgramState
from ..measurement.protocol import SearchTime
from ..measurement.random_states import Generators
from ..measurement.timeline import Timeline
from ..measurement.window_stack import unseen
from ..units import format_size

_SECOND_RUN = "the second run"


def wanted(explain: str, verdict: Verdict) -> bool:
    """Returns True if ``--attnmem-explain`` asks for the tensors behind a verdict."""
    if verdict.outcome is Outcome.OVER:
        return explain != "off"
    measured = verdict.measurement
    return explain == "all" and measured is not None and measured.unmeasured is None


def traced_call(
    primed: PrimedBackend, fn: Callable[..., Any], call: Callable[[], Any], most: int = 0
) -> Measurement:
    """Returns the measurement of another ``call`` of ``fn``, with the tensors and who holds them.

    No window counts the call, and what it changes of the program is put back. Each ``lru_cache`` is
    empty, as for a first call.

    Raises:
        AttnMemError: a tensor that the call changed is too large to be put back.
    """
    module = getattr(fn, "__module__", "") or ""
    state = ProgramState({"fn": fn, "call": call}, [module], [primed.backend])
    with unseen():
        generators = Generators()
        try:
            with state.for_a_run():
                traced, _ = primed.run(call, trace=True, most=most, search=SearchTime())
        finally:
            generators.put_back()
    state.check_put_back()
    return traced


def attributed(verdict: Verdict, trace: Callable[[], Measurement] | None) -> Verdict:
    """Returns the verdict with the tensors that were held, or with a note why they are unknown.

    ``trace`` runs the code again, under a tracker that sees the tensors of the program. A note
    gives the bytes that it does not see: the scratch of kernels, and tensors that a compiler saved
    but this eager run did not. The verdict stands even if this run fails; an error that stops the
    session is raised.
    """
    measured = verdict.measurement
    if measured is None or measured.out_of_memory is not None:
        return verdict
    at_end = verdict.budget.metric == "retained"
    if measured.held or measured.left:  # known from the run itself
        known = replace(measured, held=measured.left) if at_end else measured
        return with_held(verdict, _with_modules(known, trace, at_end))
    try:
        traced = (trace or _untraceable)()
    except (AttnMemError, ProgramRefused) as error:
        why = str(error)
    except stops():
        raise
    except BaseException as error:
        why = raised(error)
    else:
        if traced.unmeasured == EAGER:
            return _unknown(verdict, measured, EAGER)
        held = traced.left if at_end else traced.held
        held_note, run_note = _notes(measured, traced, at_end)
        traced = of_second_run(traced, run_note)
        return with_held(verdict, replace(traced, held=held, held_note=held_note))
    return _unknown(verdict, measured, why)


def _unknown(verdict: Verdict, measured: Measurement, why: str) -> Verdict:
    note = " ".join(f"held tensors are unknown: {why}".split())
    return with_held(verdict, replace(measured, held_note=note[:200]))


def with_held(verdict: Verdict, traced: Measurement) -> Verdict:
    """Returns the verdict with the held tensors, timeline and snapshots of ``traced``."""
    if verdict.measurement is None:
        return verdict
    measurement = replace(
        verdict.measurement,
        held=traced.held,
        held_note=traced.held_note,
        timeline=traced.timeline,
        snapshots=traced.snapshots,
        tensors=traced.tensors,
    )
    return replace(verdict, measurement=measurement)


def _with_modules(
    known: Measurement, trace: Callable[[], Measurement] | None, at_end: bool
) -> Measurement:
    """Returns the measurement with modules and symbolic shapes from a second run.

    Tensors of one line, operator and shape get them if both runs hold equally many of them.
    """
    try:
        traced = (trace or _untraceable)()
    except stops():
        raise
    except BaseException:
        return known
    again: dict[Held, list[Held]] = {}
    for one in reversed(traced.left if at_end else traced.held):
        again.setdefault(one.origin, []).append(one)
    counts = Counter(one.origin for one in known.held)
    same = {origin for origin, count in counts.items() if count == len(again.get(origin, ()))}
    held = tuple(again[one.origin].pop() if one.origin in same else one for one in known.held)
    return replace(
        known,
        held=held,
        timeline=_timeline(known.timeline, traced.timeline),
        tensors=traced.tensors,
    )


def _timeline(known: Timeline | None, traced: Timeline | None) -> Timeline | None:
    """Returns the timeline with the modules of a second run, if both runs allocate alike."""
    if known is None or traced is None or known.events != traced.events:
        return known
    alike = [replace(span, held=span.held.origin) for span in traced.spans]
    if alike != [replace(span, held=span.held.origin) for span in known.spans]:
        return known
    return replace(known, spans=traced.spans)


def of_second_run(traced: Measurement, run: str = _SECOND_RUN) -> Measurement:
    """Returns the measurement; the note of its timeline names the run."""
    if traced.timeline is None:
        return traced
    return replace(traced, timeline=traced.timeline.seen_in(run))


def raised(error: BaseException) -> str:
    """Returns the reason why a second run gives no answer: the error that it raised."""
    told = f"{_SECOND_RUN} raised {type(error).__name__}" + (f": {error}" if str(error) else "")
    return " ".join(told.split())


def _untraceable() -> Measurement:
    raise AttnMemError("a region runs again only with its test")


def _notes(measured: Measurement, traced: Measurement, at_end: bool) -> tuple[str, str]:
    """Returns the line below the tensors that were held, and the second run in words.

    Both give the bytes by which it differs, at the peak or ``at_end``, if those are known.
    """
    metric = "retained" if at_end else "peak"
    first, second = measured.value(metric), traced.value(metric)
    if first is None or second is None or first == second:
        return "", _SECOND_RUN
    if first < second:
        held = format_size(second)
        more = f"{_SECOND_RUN}, eager, without scratch or frees of older tensors, held {held}"
        return more, more
    nbytes = f"and {format_size(first - second)} that"
    # The bytes that the first run left and the second did not: it found them.
    left = 0 if at_end else (measured.retained_bytes or 0) - (traced.retained_bytes or 0)
    if left > 0:
        of_them = format_size(min(left, first - second))
        why = (
            f"did not account for: {of_them} of them are filled once, as a cache is; warmup=1"
            " leaves them out"
        )
    elif at_end:
        why = "did not keep: state of first use, most likely; warmup=1 leaves it out"
    else:
        why = "did not account for (scratch inside kernels, most likely)"
    return f"{nbytes} {_SECOND_RUN} {why}", f"{_SECOND_RUN}, {nbytes} it {why}"
