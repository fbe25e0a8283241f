"""The regions, checks and compares of a test, once its body has ended."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from ..api.attnmem import AttnMem
from ..api.attribution import Exceeded, of_second_run
from ..budgets.verdict import Outcome, not_enforced
from ..errors import AttnMemError
from ..symbols.attention_shape import AttentionShape
from .row_writer import RowWriter
from .traced_runs import TracedRuns


class Parts:
    """The rows and texts that the parts of one test still need."""

    def __init__(self, memory: AttnMem, rows: RowWriter) -> None:
        self._memory = memory
        self._rows = rows

    def caught(self, cause: BaseException | None) -> list[Exceeded]:
        """Returns the exceeded limits that no report tells of, because the test caught the error.

        A skip reports no limit, even if it is raised from the error of a limit.
        """
        skipped = isinstance(cause, pytest.skip.Exception)
        return [
            exceeded
            for exceeded in self._memory.exceeded
            if not exceeded.told and (skipped or not exceeded.explains(cause))
        ]

    def unentered(self) -> list[str]:
        """Keeps a row for each region that was never entered; returns the texts."""
        names = [region.name for region in self._memory.regions if not region.entered]
        for name in names:
            self._keep_unmeasured(name, "the region was never entered")
        return [f"region {name!r} was never entered; use it in a 'with'" for name in names]

    def abandoned(self) -> list[str]:
        """Keeps a row for each region that is still open, as in a generator; returns texts."""
        reason = "the test ended inside the region"
        names = [region.name for region in self._memory.regions if region.abandon()]
        for name in names:
            self._keep_unmeasured(name, reason)
        return [f"{name}: not enforced: {reason}" for name in names]

    def explain(self, second: TracedRuns) -> None:
        """Tell the errors that regions raised what was held: only the whole test can run again."""
        for exceeded in self._memory.exceeded:
            instrument = exceeded.instrument
            if exceeded.verdict.outcome is Outcome.OVER and instrument is not None:
                exceeded.attribute(partial(second.region, exceeded.name, instrument))
                memory, told = self._memory, exceeded.verdict
                exceeded.become(
                    self._rows.gate.difference(exceeded.name, told, memory, instrument) or told
                )
                self._rows.keep(exceeded.name, exceeded.verdict, None, exceeded.shape, again=True)

    def explain_the_rest(self, second: TracedRuns) -> None:
        """Tell the rows of regions that were not over who held memory in them."""
        for region in [*self._memory.regions]:
            seen = region.measurement
            if seen is not None and not seen.held and seen.unmeasured is None:
                with suppress(AttnMemError):
                    traced = second.region(region.name, region.instrument)
                    self._rows.tell(region.name, of_second_run(traced))

    def _keep_unmeasured(self, name: str, reason: str) -> None:
        self._rows.keep(name, not_enforced(reason), None, AttentionShape({}))
