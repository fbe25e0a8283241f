"""The regions, checks and comparisons of a test whose body has ended."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from ..api.attnmem import AttnMem
from ..api.attribution import of_second_run
from ..api.conclusion import Exceeded, Part
from ..budgets.failure_text import explain
from ..budgets.obstacle import Obstacle
from ..budgets.verdict import not_enforced
from ..errors import AttnMemError
from ..symbols.attention_shape import AttentionShape
from .row_writer import RowWriter
from .settled_runs import RepeatedRuns
from .traced_runs import TracedRuns


class Regions:
    """Writes the missing rows of a test's regions, checks and comparisons."""

    def __init__(self, memory: AttnMem, rows: RowWriter) -> None:
        self._memory = memory
        self._rows = rows

    def judge_by_baseline(self, repeat: RepeatedRuns | None, runs: TracedRuns) -> None:
        """Judges the regions by the baseline, now that the test can run again."""
        for part, verdict, measurement in self._rows.baseline.waiting(repeat):
            part = replace(part, trace=partial(runs.of, part))
            self._memory.conclusions.conclude_again(part, verdict, measurement)

    def caught(self, cause: BaseException | None) -> list[Exceeded]:
        """Returns the exceeded limits that no report shows, because the test caught the error.

        A skip reports no limit, even if it is raised from the error of a limit; and a test that
        skips itself may leave a limit that was not enforced.
        """
        skipped = isinstance(cause, pytest.skip.Exception)
        return [
            exceeded
            for exceeded in self._memory.conclusions.exceeded
            if not exceeded.reported
            and (exceeded.is_over if skipped else not exceeded.explains(cause))
        ]

    def unentered(self) -> list[str]:
        """Writes a row for each region that was never entered; returns texts."""
        names = [region.name for region in self._memory.regions if not region.entered]
        for name in names:
            never = not_enforced("the region was never entered", Obstacle.NOT_FINISHED)
            self._rows.write(Part(name, AttentionShape({})), never, None)
        return [f"region {name!r} was never entered; use it in a 'with'" for name in names]

    def abandoned(self) -> list[str]:
        """Writes a row for each region that is still open, as in a generator.

        Returns the texts of those that fail the test.
        """
        texts = []
        for region in self._memory.regions:
            if region.abandon():
                shape = AttentionShape({})
                part = Part(region.name, shape, region.primed, limited=region.limited)
                verdict = not_enforced("the test ended inside the region", Obstacle.REGION_OPEN)
                self._rows.write(part, verdict, None)
                if self._memory.conclusions.fails(part, verdict):
                    texts.append(f"{region.name}: {explain(verdict, shape)}")
        return texts

    def explain_the_rest(self, runs: TracedRuns) -> None:
        """Adds the held tensors to the rows of regions within their limits."""
        for region in [*self._memory.regions]:
            measured = region.measurement
            if measured is not None and not measured.held and measured.unmeasured is None:
                with suppress(AttnMemError):
                    traced = runs.region(region.name, region.primed)
                    self._rows.attach_held(region.name, of_second_run(traced))
