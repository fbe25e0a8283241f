"""The growth of a test in each of its symbols, from runs at other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, islice, product
from typing import NamedTuple

from .beneath import Beneath, beneath
from .contract import Contract
from .errors import AttnMemError, BudgetError
from .growth import Growth, known
from .judgement import Answer
from .measurement import Measurement
from .probe import Probe, listed
from .units import format_size, shown
from .variable import Variable
from .varying import ENOUGH, apart, closer, larger, others

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

    def __init__(self, probe: Probe, varied: Variable, metric: str, own: Measurement) -> None:
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

    def _together(self, contract: Contract, lines: Mapping[str, Growth]) -> Iterator[Growth]:
        """Yields the growth over a grid of each two symbols whose product is not allowed."""
        named = [symbol for symbol in lines if symbol in contract.symbols]
        for pair in combinations(named, 2):
            if contract.allows_all(pair):
                continue
            grid = {s: lines[s].sizes[s][: contract.degree(s) + 3] for s in pair}
            names = [self._varied.arguments[symbol] for symbol in pair]
            runs = {
                point: self.run(dict(zip(names, point, strict=True))).nbytes
                for point in product(*grid.values())
            }
            yield Growth(grid, runs, self.metric)


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
        if growth.judge(contract).answer is Answer.UNKNOWN:
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
            except Unclear:
                if skip:
                    raise
                return
            except AttnMemError as error:
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
        told = {size: run.seen for size, run in self._runs.items() if run.seen is not None}
        if len(told) >= _SAME:
            peaks = {size: self._runs[size].nbytes for size in told}
            metric = self._growing.metric
            return replace(growth, beneath=beneath(self._symbol, told, peaks, metric))
        sizes = tuple(sorted(self._runs))
        if not whole:
            sizes = tuple(size for size in sizes if size != self._size)
        return replace(growth, beneath=self._traced(sizes, answer is Answer.UNKNOWN))

    def _traced(self, sizes: tuple[int, ...], unclear: bool) -> Beneath | None:
        try:
            runs = {
                n: self._growing.probe.at({self._name: n}, evidence=True, trace=True)[""]
                for n in sizes
            }
        except AttnMemError:
            return None
        peaks = {size: self._runs[size].nbytes for size in sizes}
        return beneath(self._symbol, runs, peaks, self._growing.metric, whole=unclear)
