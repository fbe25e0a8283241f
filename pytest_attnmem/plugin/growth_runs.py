"""Runs a test at other sizes, to measure the growth of one metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ..budgets.budget import Budget
from ..budgets.growth_fit import Growth
from ..errors import AttnMemError, BudgetError
from ..measurement.below_peak import beneath, unchanging
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from ..units import format_values
from .size_sweep import SizeSweep

_Growth = TypeVar("_Growth", bound=Growth)


class Unclear(Exception):  # no AttnMemError, after which other sizes are tried
    """Runs at other sizes do not show how memory grows: the budget is not enforced."""


class Unsettled(Exception):  # a request, as StopIteration
    """A request to measure each size after one more run: the test found what its first run left."""


class Run(NamedTuple):
    """The memory of a test at one size."""

    nbytes: int
    allocations: int
    formula: int = 0
    """The bytes of the budget's formula, if its contract bounds the bytes over one."""
    retained: int = 0
    """The bytes that the run left alive."""
    traced: Measurement | None = None
    """The measurement with every tensor in its timeline; None if the gauge sees no tensors."""


class GrowthRuns:
    """Runs of a test, measured for one budget; ``own`` is measured at the test's own sizes."""

    def __init__(self, sweep: SizeSweep, budget: Budget, own: Measurement) -> None:
        self.sweep = sweep
        self.metric = budget.metric
        self._sum = budget.sum
        self.values = budget.values
        """The symbols of the budget that are known, at the test's own sizes."""
        self._symbols = AttentionShape(budget.values)
        self._own = own
        self._traced: dict[frozenset[tuple[str, int]], Measurement] = {}

    @property
    def own(self) -> Run:
        """The run at the test's own sizes.

        Raises:
            BudgetError: its memory is not known.
        """
        nbytes = self._own.known(self.metric)
        left = self._own.retained_bytes or 0
        return Run(nbytes, self._own.allocations, self._formula(self._symbols), left)

    def run(self, sizes: Mapping[str, int]) -> Run:
        """Returns the memory of the test at other *sizes*, by symbol.

        Raises:
            Unclear: the memory of this run is not known.
            AttnMemError: the test does not run at these sizes.
        """
        ran = self.sweep.run_at(sizes, evidence=True)
        measured = ran.measurements[""]
        try:
            nbytes = measured.known(self.metric)
        except BudgetError as error:
            raise Unclear(f"at {format_values(sizes)} {error}") from None
        traced = None if measured.timeline is None else measured
        left = measured.retained_bytes or 0
        return Run(nbytes, measured.allocations, self._formula(ran.shape), left, traced)

    @property
    def has_formula(self) -> bool:
        """Returns True if the contract bounds the bytes over a formula."""
        return self._sum is not None

    def formula_bytes(self, runs: Mapping[tuple[int, ...], Run]) -> dict[tuple[int, ...], int]:
        """Returns the bytes of the budget's formula at each point; nothing for a contract alone."""
        return {} if self._sum is None else {at: run.formula for at, run in runs.items()}

    def _formula(self, shape: AttentionShape) -> int:
        """Returns the bytes of the formula.

        Raises:
            Unclear: runs do not tell how the formula grows.
        """
        if self._sum is None:
            return 0
        try:
            return self._sum.bytes_at(shape, self._symbols)
        except AttnMemError as error:
            raise Unclear(str(error)) from None

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
            traced = self.traced([*growth.sizes], runs)
        except AttnMemError:
            return growth
        axes = zip(growth.sizes, zip(*traced, strict=True), strict=True)
        sizes = {symbol: tuple(sorted({*axis})) for symbol, axis in axes}
        peaks = {at: run.nbytes for at, run in runs.items()}
        below = beneath(sizes, traced, peaks, self.metric, whole=tracked and unclear)
        return replace(growth, beneath=below)

    def traced(
        self, symbols: Sequence[str], runs: Mapping[tuple[int, ...], Run]
    ) -> dict[tuple[int, ...], Measurement]:
        """Returns the measurements with every tensor, at the sizes of *symbols*.

        Raises:
            AttnMemError: the test does not run there under a tracker.
        """
        return {
            at: run.traced or self._tracked(dict(zip(symbols, at, strict=True)))
            for at, run in runs.items()
        }

    def is_unchanged_at(self, symbol: str, size: int) -> bool:
        """Returns True if no tensor is larger or smaller at another size of a symbol.

        Raises:
            AttnMemError: the test does not run there under a tracker.
        """
        there = self._tracked({symbol: size})
        own = self._tracked({})
        more = (there.value("peak") or 0) > (self._own.value("peak") or 0)
        return not more and unchanging([own, there], self.metric)

    def _tracked(self, sizes: Mapping[str, int]) -> Measurement:
        """Returns a run under a tracker; each is made once, that at the test's own sizes too."""
        other = frozenset((s, size) for s, size in sizes.items() if size != self.sweep.size(s))
        if other not in self._traced:
            ran = self.sweep.run_at(sizes, evidence=True, trace=True)
            self._traced[other] = ran.measurements[""]
        return self._traced[other]
