"""How a peak grows with sizes: exact fits to measured points, and what a contract says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from . import tensors
from .contract import Contract, parse_contract
from .errors import AttnMemError, BudgetError, BudgetExceeded
from .formula import Formula, parse_formula
from .interpolation import CONFIRMING, confirmed, differences, over_grid, padded
from .measurement import Measurement
from .polynomial import Polynomial
from .units import excerpt, format_size, shown

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True

#: So many sizes tell a line from what is none, and two more points than it needs lie on it.
ENOUGH = 2 + CONFIRMING


class Answer(Enum):
    """What sizes can say of a contract."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer, and the line that says why."""

    answer: Answer
    reason: str
    terms: tuple[str, ...] = ()
    """What grows too fast, where terms are known: ``8*N^2``."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Peaks over a grid of sizes. All numbers are whole bytes, all fits exact."""

    sizes: Mapping[str, tuple[int, ...]]
    """What was varied, each smallest first."""
    peaks: Mapping[tuple[int, ...], int]
    """Bytes at each point of the grid, keyed in the order of ``sizes``."""
    metric: str = "peak"
    trace: Callable[[], Measurement] | None = field(default=None, compare=False, repr=False)
    """Runs the largest sizes once more, to see what is held at the peak."""

    @property
    def polynomial(self) -> Polynomial | None:
        """The one through every point, if more lie on it than it needs; else ``None``.

        Along one symbol a length padded to a block is recognised: ``4*N + 128*ceil(N/32)``.
        """
        found = over_grid(self.sizes, self.peaks)
        if confirmed(found, self.sizes):
            return found
        if len(self.sizes) == 1:
            ((symbol, sizes),) = self.sizes.items()
            return padded(symbol, sizes, [self.peaks[size,] for size in sizes])
        return None

    @property
    def formula(self) -> Formula:
        """The fit, as a budget is written.

        Raises:
            BudgetError: no polynomial fits.
        """
        return parse_formula(str(self._fit()))

    def degree(self, symbol: str) -> int:
        """The power of *symbol* that it grows with.

        Raises:
            BudgetError: *symbol* was not varied, or no polynomial fits.
        """
        if symbol not in self.sizes:
            raise BudgetError(f"{symbol} was not varied, only {', '.join(self.sizes)}")
        return self._fit().degree(symbol)

    def judge(self, contract: Contract) -> Judgement:
        """Whether the contract was kept, as far as these sizes tell."""
        fit = self.polynomial
        if fit is not None:
            broken = contract.broken_by(fit)
            if broken:
                terms = tuple(str(Polynomial({m: fit.terms[m]})) for m in broken)
                return Judgement(Answer.BROKEN, f"{self.metric} grows as {fit}", terms)
            return Judgement(Answer.KEPT, f"{self.metric} grows as {fit}")
        answers = [self._along(symbol, contract) for symbol in self.sizes]
        for wanted in (Answer.BROKEN, Answer.UNKNOWN):
            for judgement in answers:
                if judgement.answer is wanted:
                    return judgement
        return answers[0]

    def assert_within(self, contract: str) -> None:
        """Hold it to a growth contract such as ``O(N*d)``.

        Raises:
            BudgetExceeded: it grows faster.
            BudgetError: the contract cannot be read, or the sizes cannot tell.
        """
        judgement = self.judge(parse_contract(contract))
        if judgement.answer is Answer.BROKEN:
            text = f"{judgement.reason}; the contract is {contract}\n{self}"
            raise BudgetExceeded("\n".join([text, *self._held()]))
        if judgement.answer is Answer.UNKNOWN:
            raise BudgetError(f"{judgement.reason}; the contract is {contract}")

    def __str__(self) -> str:
        """The points, a line each."""
        return "\n".join(
            f"  {' '.join(f'{name}={size}' for name, size in zip(self.sizes, at, strict=True))}"
            f"   {format_size(peak)}"
            for at, peak in self.peaks.items()
        )

    def _held(self) -> list[str]:
        """Who held memory at the largest sizes, if that can be seen."""
        if self.trace is None or self.metric == "retained":
            return []
        try:
            return tensors.lines(self.trace().held, "peak")
        except Exception as error:  # the program's own: it does not run twice
            return [f"  what was held is not known: {excerpt(str(error), 160)}"]

    def _fit(self) -> Polynomial:
        fit = self.polynomial
        if fit is None:
            raise BudgetError(f"no polynomial goes through {self.metric} at {self._listed()}")
        return fit

    def _along(self, symbol: str, contract: Contract) -> Judgement:
        """By differences alone: of what grows no faster than a power, the next ones are not > 0."""
        degree = contract.degree(symbol) if symbol in contract.symbols else None
        sizes = self.sizes[symbol]
        if degree is None:
            return Judgement(Answer.KEPT, "")
        if len(sizes) < degree + 2:
            few = f"{len(sizes)} sizes of {symbol} cannot tell; give {degree + 2 + CONFIRMING}"
            return Judgement(Answer.UNKNOWN, few)
        seen: list[Fraction] = []
        for line in self._lines(symbol):
            seen += differences(sizes, line, degree + 1)
        power = symbol if degree == 1 else f"{symbol}^{degree}"
        if all(value <= 0 for value in seen):
            slower = f"no polynomial fits, and {self.metric} grows no faster than {power}"
            return Judgement(Answer.KEPT, slower)
        if all(value > 0 for value in seen):
            faster = f"no polynomial fits, and {self.metric} grows faster than {power}"
            return Judgement(Answer.BROKEN, faster)
        return Judgement(
            Answer.UNKNOWN,
            f"no polynomial goes through {self.metric} at {self._listed()}: blocks or padding, most"
            f" likely; vary {symbol} over larger sizes, and multiples of 128",
        )

    def _lines(self, symbol: str) -> Iterator[list[int]]:
        """The peaks along *symbol*, for each choice of the other sizes."""
        place = [*self.sizes].index(symbol)
        axes = [sizes for name, sizes in self.sizes.items() if name != symbol]
        for others in product(*axes):
            before, after = others[:place], others[place:]
            points = [(*before, size, *after) for size in self.sizes[symbol]]
            yield [self.peaks[point] for point in points]

    def _listed(self) -> str:
        return ", ".join(
            f"{name}={'/'.join(map(str, sizes))}" for name, sizes in self.sizes.items()
        )


def smaller(size: int, count: int = ENOUGH) -> tuple[int, ...]:
    """Sizes below *size* to vary it over, which leave padding and blocks alone where they can.

    They are multiples of the largest block of 128, 64, … that leaves room for so many.

    Raises:
        BudgetError: it is too small for so many.
    """
    for block in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        steps = size // block
        if steps > count or (steps == count and size % block):
            # spread out, the largest about half: they cost less than one more run of the size
            top = max(count, steps // 2)
            chosen = sorted({block * max(1, top * (i + 1) // count) for i in range(count)})
            if len(chosen) == count:
                return tuple(chosen)
    raise BudgetError(f"size {size} is too small to vary: {count} smaller ones are needed")


def grid(sizes: Mapping[str, Iterable[int]]) -> dict[str, tuple[int, ...]]:
    """The sizes to vary, in order and each once.

    Raises:
        BudgetError: there are none, or one is no size.
    """
    if not sizes:
        raise BudgetError("growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])")
    made: dict[str, tuple[int, ...]] = {}
    for name, values in sizes.items():
        listed: Sequence[int] = [values] if isinstance(values, int) else [*values]
        for value in listed:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BudgetError(f"growth needs whole numbers >= 1 for {name}, got {value!r:.40}")
        distinct = tuple(sorted({*listed}))
        if len(distinct) < ENOUGH:
            raise BudgetError(
                f"growth needs {ENOUGH} sizes of {name} or more, got {len(distinct)}: two tell a"
                f" line, and {CONFIRMING} confirm it"
            )
        made[name] = distinct
    return made


def grow(
    measure: Callable[[Callable[[], Any]], Measurement],
    fn: Callable[..., Any],
    sizes: Mapping[str, Iterable[int]],
    metric: str,
) -> Growth:
    """Measure ``fn(N=…)`` at each point of a grid of sizes, the largest last.

    Raises:
        BudgetError: there are no sizes, or one that the function does not take, or nothing was
            measured.
    """
    made = grid(sizes)
    peaks: dict[tuple[int, ...], int] = {}
    trace = None
    for at in product(*made.values()):
        named = dict(zip(made, at, strict=True))
        listed = " ".join(f"{name}={size}" for name, size in named.items())
        try:
            seen = measure(partial(fn, **named))
        except AttnMemError:
            raise
        except Exception as error:
            raise BudgetError(
                f"growth: the function raised {shown(error, 160)} at {listed}; vary over sizes"
                " that it takes"
            ) from error
        try:
            peaks[at] = known(seen, metric)
        except BudgetError as error:
            raise BudgetError(f"growth: at {listed} {error}") from None
        trace = seen.trace
    return Growth(made, peaks, metric, trace)


def known(measurement: Measurement, metric: str) -> int:
    """The number of one point.

    Raises:
        BudgetError: it was not measured; the text says why.
    """
    value = measurement.value(metric)
    if measurement.out_of_memory is not None:
        raise BudgetError(f"out of memory on {measurement.place}: {measurement.out_of_memory}")
    if measurement.unmeasured is not None:
        raise BudgetError(f"{metric} is not known: {measurement.unmeasured}")
    if value is None:
        raise BudgetError(f"{metric} is not measured on {measurement.backend}")
    return value
