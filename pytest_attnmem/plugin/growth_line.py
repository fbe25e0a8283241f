"""The growth of a test along one symbol, from runs at several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth
from ..budgets.growth_judgement import Answer, Judgement
from ..budgets.sizes_to_try import ENOUGH, ODD, closer, elsewhere, larger, others
from ..errors import AttnMemError, BudgetError
from ..measurement.below_peak import unchanging
from ..units import format_size
from .growth_runs import GrowthRuns, Run, Unclear, Unsettled

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
        self._refused: AttnMemError | Unclear | None = None  # the first error of a run

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
            self._check_repeats(contract)
            growth = self._growth()
        judged = growth.judge(contract)
        if judged.answer is not Answer.KEPT and not judged.terms:  # a few sizes may bend by chance
            growth = self._with_more_sizes(beyond)
            judged = growth.judge(contract)
        unclear = judged.answer is Answer.UNKNOWN
        growth = self._with_parts(growth, contract, whole=unclear, judged=judged)
        if growth.beneath is not None:
            judged = growth.judge(contract)
        if judged.answer is Answer.UNKNOWN:
            growth = self._with_parts(self._with_more_sizes(beyond), contract, whole=True)
        elif judged.answer is Answer.BROKEN and not judged.terms:  # one more size may give a fit
            growth = self._with_parts(growth, contract, whole=True)
        elif judged.answer is Answer.KEPT:
            return self._at_odd_size(contract) or growth
        return growth

    def _at_odd_size(self, contract: Contract) -> Growth | None:
        """Checks that a size that no block divides takes no branch of its own.

        All other sizes are multiples. A remainder may be padded, which doubles memory at most. The
        size is a larger one if the test takes it: a mask of the longest sequence so far may have
        been there for all others. Returns the growth of what is filled again, if that breaks the
        contract.

        Raises:
            Unclear: it needs more than twice the memory, over the allowed power of the size.
        """
        if self._size not in self._by_size:
            return None
        own, degree = self._by_size[self._size], contract.degree(self._symbol)
        for odd in (self._size + 1, self._size - 1):
            if odd in self._by_size or odd < ODD:
                return None
            with suppress(AttnMemError, Unclear):  # sizes must divide, or are too large
                there = self._runs.run({self._symbol: odd})
                break
        else:
            return None
        rates = [Fraction(run.nbytes, n**degree) for n, run in self._by_size.items()]
        if Fraction(there.nbytes, odd**degree) <= 2 * max(rates):
            return None
        if there.retained > 0 >= own.retained:
            filled = self._filled_again(odd, there)
            answer = filled.judge(contract).answer
            if answer is Answer.BROKEN:
                return filled
            if answer is Answer.KEPT and len({*filled.peaks.values()}) > 1:  # else a capacity
                return None
        raise Unclear(
            f"{self._runs.metric} is {format_size(there.nbytes)} at {self._symbol}={odd} and"
            f" {format_size(own.nbytes)} at {self._symbol}={self._size}: another branch, most"
            " likely, so sizes cannot tell how it grows"
        )

    def _filled_again(self, size: int, run: Run) -> Growth:
        """Returns the growth over the sizes from *size* on, which find nothing filled."""
        self._by_size = {size: run}
        self._run_while_possible(range(size + 1, size + ENOUGH + 2))
        return self._growth()

    def _with_more_sizes(self, beyond: Iterable[int]) -> Growth:
        self._run_while_possible(beyond)
        self._run_while_possible(closer(self._size))
        return self._growth()

    def unnamed(self, contract: Contract) -> Growth:
        """Returns the growth in a symbol that memory must not depend on.

        Two runs show that it does not: of the second, every tensor. If the first needs other memory
        than the test, larger sizes tell whether that is so beyond the test's own size too.

        Raises:
            Unclear: the memory of a run is not known.
            AttnMemError: the test does not run at other sizes.
        """
        sizes = elsewhere(self._size)
        self._run_next(sizes)
        if self._is_unchanged and self._changes_nothing(sizes):
            return self._growth()
        multiples = (self._size * times for times in (2, 3))
        for size in chain(multiples, sizes):
            if len(self._by_size) > ENOUGH:
                break
            self._run_while_possible([size], skip=True)
        if self._runs.sweep.upward:
            self._run_while_possible(islice(self._beyond(), _BEYOND))
        if self._growth().polynomial is None:
            self._check_repeats(contract)
        growth = self._with_parts(self._growth(), contract, whole=True)
        if growth.judge(contract).answer is Answer.UNKNOWN:
            growth = self._with_parts(self._with_more_sizes(self._beyond()), contract, whole=True)
        return growth

    def _run_next(self, sizes: Iterator[int]) -> None:
        """Runs the test at the first of *sizes* that it takes."""
        known = len(self._by_size)
        for size in sizes:
            self._run_while_possible([size], skip=True)
            if len(self._by_size) > known:
                return
        raise self._refused or BudgetError(f"{self._symbol}={self._size} is too small to vary")

    @property
    def _is_unchanged(self) -> bool:
        """True if all runs need the same memory over the formula."""
        return len({run.nbytes - run.formula for run in self._by_size.values()}) == 1

    def _changes_nothing(self, sizes: Iterator[int]) -> bool:
        """Returns True if a second run shows that no tensor depends on the symbol.

        Where no memory is needed, it is one at a larger size: a branch may begin there.
        """
        if self._runs.sweep.upward:
            sizes = chain(self._beyond()[1:2], sizes)
        if any(run.traced for run in self._by_size.values()):
            try:
                self._run_next(sizes)
            except AttnMemError:  # such as an index that takes two values
                return self._is_unchanged
            traced = [run.traced for run in self._by_size.values() if run.traced is not None]
            return self._is_unchanged and unchanging(traced, self._runs.metric)
        for size in sizes:
            try:
                return self._runs.is_unchanged_at(self._symbol, size)
            except AttnMemError:
                continue
        return True

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
            except (AttnMemError, Unclear) as error:
                if isinstance(error, Unclear) and skip and size < self._size:
                    raise  # at a larger size, memory may just not suffice
                self._refused = self._refused or error
                if not skip:
                    return

    def _beyond(self) -> tuple[int, ...]:
        counts = {run.allocations for run in self._by_size.values()}
        return larger(self._size, self._runs.own.allocations, loops=len(counts) > 1)

    def _check_repeats(self, contract: Contract) -> None:
        """Measures the test's own size as the others are: with empty caches.

        If it finds filled what other sizes fill, these alone may break the contract.

        Raises:
            Unsettled: they do not, so each size must be measured after one more run.
        """
        again = self._runs.run({self._symbol: self._size})
        self._by_size[self._size] = again
        others = {size: run for size, run in self._by_size.items() if size != self._size}
        filled = again.retained <= 0 and any(run.retained > 0 for run in others.values())
        if not filled or self._growth().polynomial is not None:
            return
        self._by_size = others
        if self._with_more_sizes(()).judge(contract).answer is not Answer.BROKEN:
            raise Unsettled

    def _growth(self) -> Growth:
        sizes = tuple(sorted(self._by_size))
        peaks: dict[tuple[int, ...], int] = {(n,): self._by_size[n].nbytes for n in sizes}
        runs: dict[tuple[int, ...], Run] = {(n,): self._by_size[n] for n in sizes}
        return Growth(
            {self._symbol: sizes}, peaks, self._runs.metric, self._runs.formula_bytes(runs)
        )

    def _with_parts(
        self,
        growth: Growth,
        contract: Contract,
        *,
        whole: bool = False,
        judged: Judgement | None = None,
    ) -> Growth:
        """Returns *growth* with the tensors beneath its peak, unless the peak breaks the contract.

        Runs under a tracker take time: the test's own size is among them only if ``whole``.
        *judged* is the answer on the peak, where it is known.
        """
        answer = (judged or replace(growth, beneath=None).judge(contract)).answer
        if answer is Answer.BROKEN:
            return growth
        traced = {size: run for size, run in self._by_size.items() if run.traced is not None}
        if len(traced) < _SAME:
            own = None if whole else self._size
            traced = {n: run._replace(traced=None) for n, run in self._by_size.items() if n != own}
        runs: dict[tuple[int, ...], Run] = {(size,): run for size, run in traced.items()}
        unclear = answer is Answer.UNKNOWN
        return self._runs.with_parts_below_peak(growth, runs, unclear=unclear)
