"""How a peak grows with sizes: exact fits to measured points, and what a contract says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from . import tensors
from .beneath import Beneath, beneath
from .contract import Contract, parse_contract
from .errors import AttnMemError, BudgetError, BudgetExceeded
from .formula import Formula, parse_formula
from .interpolation import CONFIRMING, confirmed, line, over_grid, tail
from .judgement import (
    Answer,
    Judgement,
    judge_beneath,
    judge_fit,
    judge_line,
    largest_part,
)
from .measurement import Measurement
from .polynomial import Polynomial
from .units import excerpt, format_size, shown
from .varying import ENOUGH

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True


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
    traces: Mapping[int, Callable[[], Measurement]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Along one symbol: runs a size once more, to see every tensor."""
    beneath: Beneath | None = field(default=None, compare=False, repr=False)
    """The tensors of the program, those beneath the peak too, where they were looked at."""

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
            return line(symbol, sizes, [self.peaks[size,] for size in sizes])
        return None

    @property
    def settled(self) -> Growth:
        """The largest sizes that show a form, along one symbol; all sizes if none do."""
        ((symbol, sizes),) = self.sizes.items()
        found = tail(symbol, sizes, [self.peaks[size,] for size in sizes])
        if found is None:
            return self
        kept = sizes[found[0] :]
        return replace(self, sizes={symbol: kept}, peaks={(n,): self.peaks[n,] for n in kept})

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
        """Returns the answer of these sizes on whether the contract is kept.

        The peak is judged, and so are the tensors beneath it where they are known: a constant may
        hide a matrix at these sizes, and no larger size.
        """
        whole = self._judge_whole(contract)
        if whole.answer is Answer.BROKEN:
            return whole
        whole = replace(whole, note=self._note(contract))
        if self.beneath is None:
            return whole
        kept = whole.answer is Answer.KEPT
        below = judge_beneath(self.beneath, contract, self.metric if kept else "")
        if below.answer is not Answer.KEPT:
            return below
        return whole if kept else replace(below, reason=whole.reason)

    def _note(self, contract: Contract) -> str:
        """Returns the line on a symbol of the contract that the peak does not depend on."""
        if len(self.sizes) > 1 or not self.sizes.keys() <= contract.symbols:
            return ""
        ((symbol, sizes),) = self.sizes.items()
        values = {self.peaks[size,] for size in self.settled.sizes[symbol]}
        if len(values) > 1:
            return ""
        told = f"the {self.metric} does not depend on {symbol} from {sizes[0]} to {sizes[-1]}"
        below = largest_part(self.beneath, contract) if self.beneath is not None else ""
        return f"{told}; {below}" if below else told

    def _judge_whole(self, contract: Contract) -> Judgement:
        for sizes in _corners(self.sizes):
            fit = over_grid(sizes, {at: self.peaks[at] for at in product(*sizes.values())})
            if confirmed(fit, sizes):
                return judge_fit(fit, contract, [*sizes], self.metric)
        worst = min(
            (
                judge_line(symbol, self.sizes[symbol], values, contract, self.metric)
                for symbol in self.sizes
                for values in self._lines(symbol)
            ),
            key=lambda judged: judged.answer,
        )
        if worst.answer is Answer.KEPT and not contract.allows_all(self.sizes):
            together = " and ".join(self.sizes)  # each alone is allowed, and their product is not
            unclear = f"sizes cannot tell how {self.metric} grows with {together} together"
            return Judgement(Answer.UNKNOWN, unclear)
        return worst

    def assert_within(self, contract: str) -> None:
        """Hold it to a growth contract such as ``O(N*d)``.

        Raises:
            BudgetExceeded: it grows faster.
            BudgetError: the contract cannot be read, or the sizes cannot tell.
        """
        judgement = self._with_beneath().judge(parse_contract(contract))
        if judgement.answer is Answer.BROKEN:
            text = f"{judgement.reason}; the contract is {contract}\n{self}"
            raise BudgetExceeded("\n".join([text, *self._held()]))
        if judgement.answer is Answer.UNKNOWN:
            raise BudgetError(f"{judgement.reason}; the contract is {contract}")

    def _with_beneath(self) -> Growth:
        """Returns the same with the tensors beneath the peak, where the function runs again."""
        if not self.traces or self.beneath is not None:
            return self
        ((symbol, sizes),) = self.sizes.items()
        try:
            runs = {size: self.traces[size]() for size in sizes}
        except Exception:  # the function's own: it does not run twice
            return self
        peaks = {size: self.peaks[size,] for size in sizes}
        return replace(self, beneath=beneath(symbol, runs, peaks, self.metric))

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


def _corners(sizes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yields the whole grid, and of several symbols its corners of the largest sizes too."""
    yield dict(sizes)
    if len(sizes) > 1:
        starts = product(*(range(len(axis) - CONFIRMING) for axis in sizes.values()))
        for start in sorted(starts, key=sum)[1:]:
            yield {name: axis[n:] for n, (name, axis) in zip(start, sizes.items(), strict=True)}


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
    trace: Callable[[Callable[[], Any]], Measurement] | None = None,
) -> Growth:
    """Measure ``fn(N=…)`` at each point of a grid of sizes, the largest last.

    Raises:
        BudgetError: there are no sizes, or one that the function does not take, or nothing was
            measured.
    """
    made = grid(sizes)
    peaks: dict[tuple[int, ...], int] = {}
    largest: Callable[[], Measurement] | None = None
    traces: dict[int, Callable[[], Measurement]] = {}
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
        largest = seen.trace
        if trace is not None and len(made) == 1:
            traces[at[0]] = partial(trace, partial(fn, **named))
    return Growth(made, peaks, metric, largest, traces)


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
