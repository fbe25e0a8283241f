"""The growth of a test along one symbol, from runs at several sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth
from ..budgets.growth_judgement import Answer
from ..budgets.sizes_to_try import ENOUGH, apart, closer, larger, others
from ..errors import AttnMemError, BudgetError
from ..units import format_size
from .growth_runs import GrowthRuns, Run, Unclear

#: The number of larger sizes to run at, unless their answer is unclear.
_BEYOND = 3
#: The number of runs that show that memory does not depend on a symbol.
_SAME = 3


class GrowthLine:
    """Runs of a test at several sizes of one symbol."""

    def __init__(self, runs: GrowthRuns, symbol: str) -> None:
        self._runs = runs
        self._symbol = symbol
        self._size = runs.sweep.size(symbol)
        self._by_size = {self._size: runs.own}
        self._refused: AttnMemError | None = None  # the first error of a run

    def plain(self) -> Growth:
        """Returns the growth up to the test's own size, over the largest sizes that have a fit.

        Raises:
            AttnMemError: the test does not run at enough sizes.
        """
        self._run_at_others()
        if self._growth().polynomial is None:
            self._run_at(closer(self._size))
        return self._growth().settled

    def named(self, contract: Contract) -> Growth:
        """Returns the growth in a symbol that *contract* names.

        Raises:
            Unclear: the test needs other memory when it runs again.
            AttnMemError: the test does not run at enough sizes.
        """
        self._run_at_others()
        upward = self._runs.sweep.upward
        beyond = iter(self._beyond() if upward else ())
        self._run_while_possible(islice(beyond, _BEYOND))
        growth = self._growth()
        if growth.polynomial is None:
            self._check_repeats()
        judged = growth.judge(contract)
        if judged.answer is not Answer.KEPT and not judged.terms:  # a few sizes may bend by chance
            growth = self._with_more_sizes(beyond)
        unclear = growth.judge(contract).answer is Answer.UNKNOWN
        growth = self._with_parts(growth, contract, whole=unclear)
        judged = growth.judge(contract)
        if judged.answer is Answer.UNKNOWN:
            growth = self._with_parts(self._with_more_sizes(beyond), contract, whole=True)
        elif judged.answer is Answer.BROKEN and not judged.terms:  # one more size may give a fit
            growth = self._with_parts(growth, contract, whole=True)
        return growth

    def _with_more_sizes(self, beyond: Iterable[int]) -> Growth:
        self._run_while_possible(beyond)
        self._run_while_possible(closer(self._size))
        return self._growth()

    def unnamed(self, contract: Contract) -> Growth:
        """Returns the growth in a symbol that memory must not depend on.

        Raises:
            Unclear: the memory of a run is not known.
            AttnMemError: the test does not run at enough sizes.
        """
        enough = _SAME if self._size > 1 else _SAME + 1  # 1 may be a special case
        for size in apart(self._size):
            values = {run.nbytes for run in self._by_size.values()}
            if len(self._by_size) >= (enough if len(values) == 1 else ENOUGH + 1):
                break
            self._run_while_possible([size], skip=True)
        if self._runs.sweep.upward:
            self._run_while_possible(islice(self._beyond(), _BEYOND))
        if len(self._by_size) < _SAME:
            raise self._refused or BudgetError(f"{self._symbol}={self._size} is too small to vary")
        return self._with_parts(self._growth(), contract, whole=True)

    def _run_at_others(self) -> None:
        for size in others(self._size):
            if len(self._by_size) > ENOUGH:
                break
            self._run_while_possible([size], skip=True)
        if len(self._by_size) < ENOUGH:
            raise self._refused or BudgetError(f"{self._symbol}={self._size} is too small to vary")

    def _run_at(self, sizes: Iterable[int]) -> None:
        for size in sizes:
            if size not in self._by_size and size > 0:
                self._by_size[size] = self._runs.run({self._symbol: size})

    def _run_while_possible(self, sizes: Iterable[int], *, skip: bool = False) -> None:
        """Runs the test at *sizes*; stops at the first that fails, or continues with ``skip``."""
        for size in sizes:
            try:
                self._run_at([size])
            except AttnMemError as error:
                if isinstance(error, Unclear) and skip and size < self._size:
                    raise  # at a larger size, memory may just not suffice
                self._refused = self._refused or error
                if not skip:
                    return

    def _beyond(self) -> tuple[int, ...]:
        counts = {run.allocations for run in self._by_size.values()}
        return larger(self._size, self._runs.own.allocations, loops=len(counts) > 1)

    def _check_repeats(self) -> None:
        """Checks that the first run of the test and one more run need the same memory.

        Raises:
            Unclear: they do not.
        """
        first, again = self._runs.own.nbytes, self._runs.run({self._symbol: self._size})
        if again.nbytes != first:
            raise Unclear(
                f"{self._runs.metric} is {format_size(first)} when the test runs first and"
                f" {format_size(again.nbytes)} when it runs again: state that is filled once, most"
                " likely; warmup=1 leaves it out"
            )
        self._by_size[self._size] = again

    def _growth(self) -> Growth:
        sizes = tuple(sorted(self._by_size))
        peaks: dict[tuple[int, ...], int] = {(n,): self._by_size[n].nbytes for n in sizes}
        runs: dict[tuple[int, ...], Run] = {(n,): self._by_size[n] for n in sizes}
        return Growth(
            {self._symbol: sizes}, peaks, self._runs.metric, self._runs.formula_bytes(runs)
        )

    def _with_parts(self, growth: Growth, contract: Contract, *, whole: bool = False) -> Growth:
        """Returns *growth* with the tensors beneath its peak, unless the peak breaks the contract.

        Runs under a tracker take time: the test's own size is among them only if ``whole``.
        """
        answer = replace(growth, beneath=None).judge(contract).answer
        if answer is Answer.BROKEN:
            return growth
        traced = {size: run for size, run in self._by_size.items() if run.traced is not None}
        if len(traced) < _SAME:
            own = None if whole else self._size
            traced = {n: run._replace(traced=None) for n, run in self._by_size.items() if n != own}
        runs: dict[tuple[int, ...], Run] = {(size,): run for size, run in traced.items()}
        unclear = answer is Answer.UNKNOWN
        return self._runs.with_parts_below_peak(growth, runs, unclear=unclear)
