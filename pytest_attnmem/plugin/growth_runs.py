"""Runs a test at other sizes, to measure the growth of one metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ..budgets.growth_fit import Growth
from ..errors import AttnMemError, BudgetError
from ..measurement.below_peak import beneath
from ..measurement.measurement import Measurement
from .size_sweep import SizeSweep, listed

_Growth = TypeVar("_Growth", bound=Growth)


class Unclear(AttnMemError):
    """Runs at other sizes do not show how memory grows: the budget is not enforced."""


class Run(NamedTuple):
    """The memory of a test at one size."""

    nbytes: int
    allocations: int
    traced: Measurement | None = None
    """The measurement with every tensor in its timeline; None if the gauge sees no tensors."""


class GrowthRuns:
    """Runs of a test, measured by one metric; ``own`` is measured at the test's own sizes."""

    def __init__(self, sweep: SizeSweep, metric: str, own: Measurement) -> None:
        self.sweep = sweep
        self.metric = metric
        self._own = own

    @property
    def own(self) -> Run:
        """The run at the test's own sizes.

        Raises:
            BudgetError: its memory is not known.
        """
        return Run(self._own.known(self.metric), self._own.allocations)

    def run(self, sizes: Mapping[str, int]) -> Run:
        """Returns the memory of the test at other *sizes*, by symbol.

        Raises:
            Unclear: the memory of this run is not known.
            AttnMemError: the test does not run at these sizes.
        """
        measured = self.sweep.run_at(sizes, evidence=True)[""]
        try:
            nbytes = measured.known(self.metric)
        except BudgetError as error:
            raise Unclear(f"at {listed(sizes)} {error}") from None
        traced = None if measured.timeline is None else measured
        return Run(nbytes, measured.allocations, traced)

    def with_parts_below_peak(
        self,
        growth: _Growth,
        runs: Mapping[tuple[int, ...], Run],
        *,
        unclear: bool,
    ) -> _Growth:
        """Returns *growth* with the tensors beneath its peak.

        If *runs* are not traced, the test runs again under a tracker; then scratch inside kernels
        is a part too, if the peak's answer is ``unclear``.
        """
        tracked = any(run.traced is None for run in runs.values())
        try:
            traced = {
                at: run.traced or self._tracked(dict(zip(growth.sizes, at, strict=True)))
                for at, run in runs.items()
            }
        except AttnMemError:
            return growth
        axes = zip(growth.sizes, zip(*traced, strict=True), strict=True)
        sizes = {symbol: tuple(sorted({*axis})) for symbol, axis in axes}
        peaks = {at: run.nbytes for at, run in runs.items()}
        below = beneath(sizes, traced, peaks, self.metric, whole=tracked and unclear)
        return replace(growth, beneath=below)

    def _tracked(self, sizes: Mapping[str, int]) -> Measurement:
        return self.sweep.run_at(sizes, evidence=True, trace=True)[""]
