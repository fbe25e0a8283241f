"""Holds compiled code to the memory of the same code run eagerly: ``compiled="<=eager"``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ..api.comparison import judge_comparison
from ..api.compiled_functions import Compilations, run_eagerly
from ..backends.compile_watch import CompileWatch
from ..budgets.budget import Budget, Obstacle
from ..budgets.parsing import NO_MORE
from ..budgets.verdict import Outcome, Verdict, not_enforced
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from .traced_rerun import TracedRerun

if TYPE_CHECKING:
    import pytest

    from ..backends.primed_backend import PrimedBackend

#: The worst outcome counts.
_WORST = (Outcome.OVER, Outcome.NOT_ENFORCED, Outcome.WITHIN)


class CompiledCheck:
    """The runs of one test, compiled and eager; made before the test compiles anything."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._compilations = Compilations()
        self._watch = CompileWatch()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notices whether the body, which runs in this context, calls compiled code."""
        self._watch.start()
        try:
            yield
        finally:
            self._watch.stop()

    def judged(self, verdict: Verdict, primed: PrimedBackend) -> Verdict:
        """Returns the worse verdict: ``verdict``, on the marker's own limit, or that on eager code.

        The graphs that the test compiled are named in a failure.
        """
        measured, budget = verdict.measurement, verdict.budget
        if measured is None:
            return verdict
        mine = self._compared(measured, budget, primed)
        if verdict.lacks_limit:
            return mine
        return min(verdict, mine, key=lambda one: _WORST.index(one.outcome))

    def _compared(self, measured: Measurement, budget: Budget, primed: PrimedBackend) -> Verdict:
        why = ""
        if not self._watch.noticed:
            why = "the test calls no compiled code, so nothing is compared; call torch.compile(f)"
        else:
            try:
                eager = self._eager(primed, budget.metric)
            except AttnMemError as error:
                why = f"the eager code did not run: {error}"
        if why:
            reason = f"compiled={NO_MORE!r}: {why}"
            unlimited = replace(budget, limit_bytes=None, values={})
            return not_enforced(reason, Obstacle.NOT_COMPARED, measured, unlimited)
        names = ("compiled code", "eager code")
        shape = AttentionShape({})
        verdict = judge_comparison(
            measured, eager, (None, None), budget.metric, budget.where, shape, names
        )
        return self._compilations.named(verdict)

    def _eager(self, primed: PrimedBackend, metric: str) -> Measurement:
        """Returns the second run of the eager code: the first may fill caches of libraries."""
        again = TracedRerun(self._item, metric=metric)
        with run_eagerly():
            again.untraced(primed)
            return again.untraced(primed)
