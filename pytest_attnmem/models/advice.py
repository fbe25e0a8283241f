"""Advice for a recipe over its budget: edits that were run and measured, the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from .edits import Edit, edits_of
from .model_memory import ModelMemory, ModelRun
from .trials import Trial, Trials

#: The most suggestions.
_MOST: Final = 4
#: More bytes than any device has.
_UNKNOWN: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Advice:
    """The edits of a recipe that were run, and those of them to suggest."""

    budget: int
    """In bytes."""
    peak_bytes: int | None
    """The peak of the recipe without edits, or None if it did not run to its end."""
    alone: tuple[Trial, ...]
    """Each edit by itself."""
    suggested: tuple[Trial, ...]
    """Those that pass, the cheapest first; none of them has an edit that it could do without."""
    nearest: Trial | None
    """If nothing passes, the run that needed the fewest bytes."""
    runs: int
    """The number of recipes that were run and measured."""


def advise(
    run: ModelRun,
    found: ModelMemory,
    budget: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Advice:
    """Returns advice for a recipe whose memory is ``found``; only what passed is suggested.

    Each edit runs by itself. Then edits that cost less than those that passed run together; fewer
    digits come last. Of the first set that passes, edits are left out as long as it passes.
    """
    if found.fits and found.peak_bytes <= budget:
        return Advice(budget, found.peak_bytes, (), (), None, 0)
    peak = found.peak_bytes if found.fits or found.parts else None
    trials = Trials(run, budget, progress)
    edits = edits_of(run.recipe, found.attention)
    batches = [edit for edit in edits if edit.kind == "batches"]
    alone = [trials.trial([edit]) for edit in edits if edit not in batches]
    alone += trials.batches(batches, peak)
    chosen = {trial.edits for trial in alone if trial.passes(budget)}
    for together in _sets(alone, batches, budget, peak):
        if trials.passes(together):
            chosen.add(trials.smallest(together))
            break
    ran_whole = (trials.whole(one) for one in chosen)
    suggested = sorted((one for one in ran_whole if one.passes(budget)), key=lambda one: one.cost)
    ran = [trial for trial in trials.seen if trial.peak_bytes is not None]
    nearest = min(ran, key=_bytes, default=None)
    return Advice(
        *(budget, peak, tuple(alone), tuple(suggested[:_MOST])),
        None if suggested else nearest,
        len(trials.seen),
    )


#: The kinds of edits by what they cost.
_FREE: Final = frozenset({"clear", "optimizer", "attention", "batches"})
_EXACT: Final = _FREE | {"loss", "checkpoint"}


def _sets(
    alone: Iterable[Trial], batches: list[Edit], budget: int, peak: int | None
) -> Iterator[list[Edit]]:
    """Yields sets of edits that are cheaper than any that passes by itself, the cheapest first.

    A set has the edit of each kind with the lowest peak by itself, and the smallest batch.
    """
    most = _UNKNOWN if peak is None else peak + peak // 100  # an edit may also add memory
    best: dict[str, Trial] = {}
    passing: list[str] = []
    for trial in alone:
        (edit,) = trial.edits
        if trial.passes(budget):
            passing.append(edit.kind)
        if trial.reason.startswith("did not run") or _bytes(trial) > most:
            continue
        if edit.kind not in best or _bytes(trial) <= _bytes(best[edit.kind]):
            best[edit.kind] = trial
    if _FREE.intersection(passing):
        return
    edits = [trial.edits[0] for kind, trial in best.items() if kind != "batches"]
    edits += batches[-1:]
    if _EXACT.intersection(passing):
        kinds = [_FREE]
    else:
        kinds = [_EXACT] if passing else [_EXACT, _EXACT | {"precision"}]
    sets = ([edit for edit in edits if edit.kind in one] for one in kinds)
    yield from (one for one, _ in groupby(sets) if len(one) > 1)


def _bytes(trial: Trial) -> int:
    return trial.peak_bytes if trial.peak_bytes is not None else _UNKNOWN
