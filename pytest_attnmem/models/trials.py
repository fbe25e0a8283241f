"""Recipes with edits, each run once, and the search for a small set of edits that passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import AttnMemError, ProgramRefused
from .edits import Cost, Edit
from .flops import FlopCount, StepFlops
from .model_memory import ModelRun
from .recipe import Recipe

#: The kinds of edits in the order in which a set leaves them out: the dearest first.
_DEAREST: Final = ("precision", "checkpoint", "loss", "batches", "clear", "optimizer", "attention")


#: The micro-batches of a step that a trial runs: others repeat the second. A suggestion runs all.
_PASSES: Final = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """A recipe with edits, as it ran."""

    edits: tuple[Edit, ...]
    recipe: Recipe
    peak_bytes: int | None
    """None if it did not run, or did not fit the device."""
    reason: str = ""
    """Why there is no peak; empty if there is one."""
    flops: StepFlops | None = None
    """The operations of a step, of a suggestion that recomputes; else None."""

    def passes(self, budget: int) -> bool:
        """Returns True if it ran, fits the device and keeps the budget in bytes."""
        return self.peak_bytes is not None and self.peak_bytes <= budget

    @property
    def recomputes(self) -> bool:
        """Returns True if the recipe computes something again in backward."""
        return self.recipe.checkpoint or bool(self.recipe.loss_chunks)

    @property
    def cost(self) -> tuple[int, int, int, int, int]:
        """Returns the order of suggestions: precision, operations, batches, edits, then bytes."""
        lossy = any(edit.cost == Cost.PRECISION for edit in self.edits)
        again = self.flops.recomputed if self.flops is not None else int(self.recomputes) << 62
        parts = self.recipe.accumulate
        return int(lossy), again, parts, len(self.edits), self.peak_bytes or 0


class Trials:
    """Runs recipes with edits on one backend, each once."""

    def __init__(self, run: ModelRun, budget: int, progress: Callable[[str], None]) -> None:
        self.run = run
        self.budget = budget
        self.progress = progress
        self._trials: dict[frozenset[Edit], Trial] = {}

    @property
    def seen(self) -> list[Trial]:
        """Returns all that ran."""
        return [*self._trials.values()]

    def trial(self, edits: Iterable[Edit]) -> Trial:
        """Returns the run of the recipe with edits."""
        chosen = tuple(edits)
        key = frozenset(chosen)
        if key not in self._trials:
            self.progress("trying " + ", ".join(edit.option for edit in chosen))
            self._trials[key] = self._measured(chosen)
        return self._trials[key]

    def passes(self, edits: Iterable[Edit]) -> bool:
        """Returns True if the recipe with edits runs within the budget."""
        return self.trial(edits).passes(self.budget)

    def _measured(self, edits: tuple[Edit, ...], passes: int = _PASSES) -> Trial:
        recipe = self.run.recipe
        for edit in edits:
            recipe = edit.apply(recipe)
        try:
            found = self.run.of(recipe).memory(traced=False, passes=passes)
        except (AttnMemError, ProgramRefused) as error:
            return Trial(edits, recipe, None, f"did not run: {error}")
        if not found.fits:
            return Trial(edits, recipe, None, f"does not fit: {found.measurement.out_of_memory}")
        return Trial(edits, recipe, found.peak_bytes)

    def batches(self, edits: Sequence[Edit], peak: int | None) -> Iterator[Trial]:
        """Yields runs of smaller and smaller batches, until one passes or none can.

        ``edits`` halve the batch again and again. What a line through the first two peaks, ``peak``
        and that of half the batch, says of others only spares runs.
        """
        for place, edit in enumerate(edits):
            trial = self.trial([edit])
            yield trial
            if trial.passes(self.budget):
                return
            if place or peak is None or trial.peak_bytes is None:
                continue
            slope = 2 * (peak - trial.peak_bytes)  # of the whole batch
            if slope <= 0 or peak - slope >= self.budget:
                return
            rest = range(1, len(edits))
            likely = (at for at in rest if peak - slope + (slope >> at + 1) <= self.budget)
            first = next(likely, len(edits) - 1)
            smaller = [*self.batches(edits[first:], None)]
            yield from smaller
            if first > 1 and smaller[0].passes(self.budget):
                yield self.trial([edits[first - 1]])
            return

    def smallest(self, edits: Sequence[Edit]) -> tuple[Edit, ...]:
        """Returns edits that pass without those that they do not need, the dearest left out."""
        for edit in sorted(edits, key=lambda one: _DEAREST.index(one.kind)):
            rest = [other for other in edits if other != edit]
            if rest and self.passes(rest):
                edits = rest
        return tuple(edits)

    def whole(self, edits: tuple[Edit, ...]) -> Trial:
        """Returns the run of edits with all of its micro-batches, and what it recomputes."""
        found = self.trial(edits)
        if found.recipe.accumulate > _PASSES:
            self.progress("running all of " + ", ".join(edit.option for edit in edits))
            found = self._measured(edits, found.recipe.accumulate)
        if not found.recomputes or not found.passes(self.budget):
            return found
        self.progress("counting operations: " + ", ".join(edit.option for edit in edits))
        count = FlopCount()
        try:
            self.run.of(found.recipe).count(count)
        except (AttnMemError, ProgramRefused):  # the backend cannot count under a mode
            return found
        return replace(found, flops=count.flops)
