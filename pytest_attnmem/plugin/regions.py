"""The regions, checks and compares of a test, once its body has ended."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ..api.attnmem import AttnMem
from ..api.attribution import of_second_run
from ..api.conclusion import Exceeded, Part
from ..budgets.verdict import not_enforced
from ..errors import AttnMemError
from ..symbols.attention_shape import AttentionShape
from .row_writer import RowWriter
from .traced_runs import TracedRuns


class Regions:
    """The regions, checks and comparisons of one test: rows and texts that they still need."""

    def __init__(self, memory: AttnMem, rows: RowWriter) -> None:
        self._memory = memory
        self._rows = rows

    def caught(self, cause: BaseException | None) -> list[Exceeded]:
        """Returns the exceeded limits that no report shows, because the test caught the error.

        A skip reports no limit, even if it is raised from the error of a limit.
        """
        skipped = isinstance(cause, pytest.skip.Exception)
        return [
            exceeded
            for exceeded in self._memory.conclusions.exceeded
            if not exceeded.reported and (skipped or not exceeded.explains(cause))
        ]

    def unentered(self) -> list[str]:
        """Writes a row for each region that was never entered; returns the texts."""
        names = [region.name for region in self._memory.regions if not region.entered]
        for name in names:
            self._keep_unmeasured(name, "the region was never entered")
        return [f"region {name!r} was never entered; use it in a 'with'" for name in names]

    def abandoned(self) -> list[str]:
        """Writes a row for each region that is still open, as in a generator; returns texts."""
        reason = "the test ended inside the region"
        names = [region.name for region in self._memory.regions if region.abandon()]
        for name in names:
            self._keep_unmeasured(name, reason)
        return [f"{name}: not enforced: {reason}" for name in names]

    def explain_the_rest(self, runs: TracedRuns) -> None:
        """Add to the rows of regions within their limits the tensors that were held."""
        for region in [*self._memory.regions]:
            seen = region.measurement
            if seen is not None and not seen.held and seen.unmeasured is None:
                with suppress(AttnMemError):
                    traced = runs.region(region.name, region.primed)
                    self._rows.attach_held(region.name, of_second_run(traced))

    def _keep_unmeasured(self, name: str, reason: str) -> None:
        self._rows.keep(Part(name, AttentionShape({})), not_enforced(reason), None)
