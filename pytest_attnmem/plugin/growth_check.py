"""The growth of a test in each of its symbols, from runs at other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice, product
from typing import NamedTuple

from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth, known
from ..budgets.growth_judgement import Answer
from ..budgets.sizes_to_try import ENOUGH, apart, closer, larger, others
from ..errors import AttnMemError, BudgetError
from ..measurement.below_peak import beneath
from ..measurement.measurement import Measurement
from ..units import format_size, shown
from .size_argument import Variable
from .size_sweep import SizeSweep, listed

#: The number of larger sizes to run at, unless they leave a doubt.
_BEYOND = 3
#: So many runs show that memory does not depend on a symbol.
_SAME = 3


class Unclear(AttnMemError):
    """Runs at other sizes do not tell how memory grows: the budget is not enforced."""


class Grown(NamedTuple):
    """The growth of a test in each symbol that can be varied."""

    growths: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()
    """The symbols that were not varied, and why."""


class Run(NamedTuple):
    """The test at one size."""

    nbytes: int
    allocations: int
    seen: Measurement | None = None
    """The run with every tensor in its timeline, where the gauge itself tells of tensors."""


class Growing:
    """A test and one metric of its memory."""

    def __init__(self, probe: SizeSweep, varied: Variable, metric: str, own: Measurement) -> None:
        self.probe = probe
        self.metric = metric
        self.own = Run(known(own, metric), own.allocations)
        self._varied = varied

    def judged_by(self, contract: Contract) -> Grown:
        """Returns the growth along each symbol, at sizes that tell whether *contract* is kept.

        Raises:
            Unclear: the runs do not tell how memory grows.
            AttnMemError: the test does not run at other sizes of any symbol that is named.
        """
        lines: dict[str, Growth] = {}
        refused: dict[str, AttnMemError] = {}
        for symbol, name in self._varied.arguments.items():
            size = self.probe.argument(name)
            named = symbol in contract.symbols
            if not named and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
                continue  # M=None, say, which leaves a symbol at its default
            try:
                line = Line(self, symbol, name)
                lines[symbol] = line.named(contract) if named else line.unnamed(contract)
            except Unclear:
                raise
            except AttnMemError as error:
                refused[symbol] = error
        if refused and not (contract.symbols or {*lines}) & {*lines}:
            raise next(iter(refused.values()))
        notes = [
            *self._varied.notes,
            *(f"{symbol} was not varied: {error}" for symbol, error in refused.items()),
        ]
        return Grown((*lines.values(), *self._together(contract, lines)), tuple(notes))

    def explaining(self, symbols: Iterable[str]) -> tuple[Growth, ...]:
        """Returns the growth along those of the symbols that the test takes.

        Raises:
            AttnMemError: the test does not run at other sizes.
        """
        wanted = {*symbols}
        arguments = {s: name for s, name in self._varied.arguments.items() if s in wanted}
        return tuple(Line(self, symbol, name).plain() for symbol, name in arguments.items())

    def run(self, sizes: Mapping[str, int]) -> Run:
        """Returns the memory of the test at *sizes* of its arguments.

        Raises:
            Unclear: the memory of this run is not known.
            AttnMemError: the test does not run there.
        """
        seen = self.probe.at(sizes, evidence=True)[""]
        try:
            told = None if seen.timeline is None else seen
            return Run(known(seen, self.metric), seen.allocations, told)
        except BudgetError as error:
            raise Unclear(f"at {listed(sizes)} {error}") from None

    def with_beneath(
        self,
        growth: Growth,
        names: Mapping[str, str],
        runs: Mapping[tuple[int, ...], Run],
        *,
        unclear: bool,
    ) -> Growth:
        """Returns *growth* and the tensors beneath its peak, where runs tell of tensors.

        *names* has the argument of each symbol. A tracker runs where *runs* do not tell; then
        scratch inside kernels is a part as well if the peak leaves the answer ``unclear``.
        """
        tracked = any(run.seen is None for run in runs.values())
        try:
            told = {at: run.seen or self._tracked(names, at) for at, run in runs.items()}
        except AttnMemError:
            return growth
        axes = zip(names, zip(*told, strict=True), strict=True)
        sizes = {symbol: tuple(sorted({*axis})) for symbol, axis in axes}
        peaks = {at: run.nbytes for at, run in runs.items()}
        below = beneath(sizes, told, peaks, self.metric, whole=tracked and unclear)
        return replace(growth, beneath=below)

    def _tracked(self, names: Mapping[str, str], at: tuple[int, ...]) -> Measurement:
        sizes = dict(zip(names.values(), at, strict=True))
        return self.probe.at(sizes, evidence=True, trace=True)[""]

    def _together(self, contract: Contract, lines: Mapping[str, Growth]) -> Iterator[Growth]:
        """Yields the growth over a grid of symbols whose product is not allowed."""
        named = [symbol for symbol in lines if symbol in contract.symbols]
        for count in range(2, len(named) + 1):
            for group in combinations(named, count):
                if contract.divides(group):
                    yield self._over_grid(contract, group, lines)

    def _over_grid(
        self, contract: Contract, group: tuple[str, ...], lines: Mapping[str, Growth]
    ) -> Growth:
        grid = {s: lines[s].sizes[s][: contract.degree(s) + 3] for s in group}
        names = {symbol: self._varied.arguments[symbol] for symbol in group}
        runs = {
            point: self.run(dict(zip(names.values(), point, strict=True)))
            for point in product(*grid.values())
        }
        growth = Growth(grid, {at: run.nbytes for at, run in runs.items()}, self.metric)
        answer = growth.judge(contract).answer
        if answer is Answer.BROKEN:
            return growth
        return self.with_beneath(growth, names, runs, unclear=answer is Answer.UNKNOWN)


class Line:
    """A test at several sizes of one symbol."""

    def __init__(self, growing: Growing, symbol: str, name: str) -> None:
        size = growing.probe.argument(name)
        if not isinstance(size, int) or isinstance(size, bool):
            raise BudgetError(f"{name}={shown(size)} is not a size to vary")
        self._growing = growing
        self._symbol = symbol
        self._name = name
        self._size = size
        self._runs = {size: growing.own}
        self._refused: AttnMemError | None = None  # why the test does not run at a size

    def plain(self) -> Growth:
        """Returns the growth up to the test's own size, from where on a form goes through it.

        Raises:
            AttnMemError: the test does not run at enough sizes.
        """
        self._take_others()
        if self._growth().polynomial is None:
            self._take(closer(self._size))
        return self._growth().settled

    def named(self, contract: Contract) -> Growth:
        """Returns the growth in a symbol that *contract* names.

        Raises:
            Unclear: the test needs less when it runs again.
            AttnMemError: the test does not run at enough sizes.
        """
        self._take_others()
        upward = self._growing.probe.upward
        beyond = iter(self._beyond() if upward else ())
        self._take_while_possible(islice(beyond, _BEYOND))
        growth = self._growth()
        if growth.polynomial is None:
            self._compare_with_again()
        judged = growth.judge(contract)
        if judged.answer is not Answer.KEPT and not judged.terms:  # so few may bend by chance
            growth = self._grown_more(beyond)
        unclear = growth.judge(contract).answer is Answer.UNKNOWN
        growth = self._with_beneath(growth, contract, whole=unclear)
        judged = growth.judge(contract)
        if judged.answer is Answer.UNKNOWN:
            growth = self._with_beneath(self._grown_more(beyond), contract, whole=True)
        elif judged.answer is Answer.BROKEN and not judged.terms:  # one more size may show a form
            growth = self._with_beneath(growth, contract, whole=True)
        return growth

    def _grown_more(self, beyond: Iterable[int]) -> Growth:
        self._take_while_possible(beyond)
        self._take_while_possible(closer(self._size))
        return self._growth()

    def unnamed(self, contract: Contract) -> Growth:
        """Returns the growth in a symbol that memory must not depend on.

        Raises:
            Unclear: the memory of a run is not known.
            AttnMemError: the test does not run at enough sizes.
        """
        enough = _SAME if self._size > 1 else _SAME + 1  # 1 may be a case of its own
        for size in apart(self._size):
            values = {run.nbytes for run in self._runs.values()}
            if len(self._runs) >= (enough if len(values) == 1 else ENOUGH + 1):
                break
            self._take_while_possible([size], skip=True)
        if self._growing.probe.upward:
            self._take_while_possible(islice(self._beyond(), _BEYOND))
        if len(self._runs) < _SAME:
            raise self._refused or BudgetError(f"{self._symbol}={self._size} is too small to vary")
        return self._with_beneath(self._growth(), contract, whole=True)

    def _take_others(self) -> None:
        for size in others(self._size):
            if len(self._runs) > ENOUGH:
                break
            self._take_while_possible([size], skip=True)
        if len(self._runs) < ENOUGH:
            raise self._refused or BudgetError(f"{self._symbol}={self._size} is too small to vary")

    def _take(self, sizes: Iterable[int]) -> None:
        for size in sizes:
            if size not in self._runs and size > 0:
                self._runs[size] = self._growing.run({self._name: size})

    def _take_while_possible(self, sizes: Iterable[int], *, skip: bool = False) -> None:
        """Run at *sizes* up to the first at which the test does not run; or past it."""
        for size in sizes:
            try:
                self._take([size])
            except AttnMemError as error:
                if isinstance(error, Unclear) and skip and size < self._size:
                    raise  # where a larger size may not fit
                self._refused = self._refused or error
                if not skip:
                    return

    def _beyond(self) -> tuple[int, ...]:
        counts = {run.allocations for run in self._runs.values()}
        return larger(self._size, self._growing.own.allocations, loops=len(counts) > 1)

    def _compare_with_again(self) -> None:
        """See that the test's first run and one more need the same."""
        first, again = self._growing.own.nbytes, self._growing.run({self._name: self._size})
        if again.nbytes != first:
            raise Unclear(
                f"{self._growing.metric} is {format_size(first)} when the test runs first and"
                f" {format_size(again.nbytes)} when it runs again: state that is filled once, most"
                " likely; warmup=1 leaves it out"
            )
        self._runs[self._size] = again

    def _growth(self) -> Growth:
        sizes = tuple(sorted(self._runs))
        peaks: dict[tuple[int, ...], int] = {(n,): self._runs[n].nbytes for n in sizes}
        return Growth({self._symbol: sizes}, peaks, self._growing.metric)

    def _with_beneath(self, growth: Growth, contract: Contract, *, whole: bool = False) -> Growth:
        """Returns *growth* and the tensors beneath it, unless the peak alone breaks the contract.

        A tracker's runs take time: all sizes are run under it only where the peak tells too little.
        """
        answer = replace(growth, beneath=None).judge(contract).answer
        if answer is Answer.BROKEN:
            return growth
        told = {size: run for size, run in self._runs.items() if run.seen is not None}
        if len(told) < _SAME:
            own = None if whole else self._size
            told = {n: run._replace(seen=None) for n, run in self._runs.items() if n != own}
        runs: dict[tuple[int, ...], Run] = {(size,): run for size, run in told.items()}
        names = {self._symbol: self._name}
        unclear = answer is Answer.UNKNOWN
        return self._growing.with_beneath(growth, names, runs, unclear=unclear)
