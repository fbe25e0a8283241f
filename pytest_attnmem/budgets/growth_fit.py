"""The growth of a peak with sizes: exact fits to measured points, judged by a contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from ..errors import AttnMemError, BudgetError, BudgetExceeded
from ..formulas.formula import Formula, parse_formula
from ..formulas.interpolation import CONFIRMING, confirmed, line, over_grid, tail
from ..formulas.polynomial import Polynomial
from ..measurement.below_peak import Beneath, beneath
from ..measurement.measurement import Measurement
from ..symbols.sizes import as_size
from ..units import format_size, shown
from .growth_contract import Contract, parse_contract
from .growth_judgement import Answer, Judgement, judge_beneath, judge_grid, largest_part
from .sizes_to_try import ENOUGH

#: Pytest shows the line of the test, not our frames below it.
__tracebackhide__ = True


@dataclass(frozen=True, slots=True)
class Growth:
    """Peaks over a grid of sizes, in whole bytes, and the exact fit to them."""

    sizes: Mapping[str, tuple[int, ...]]
    """The sizes of each symbol, the smallest first."""
    peaks: Mapping[tuple[int, ...], int]
    """Bytes at each point of the grid, keyed in the order of ``sizes``."""
    metric: str = "peak"
    largest: Measurement | None = field(default=None, compare=False, repr=False)
    """The measurement at the largest sizes."""
    traces: Mapping[tuple[int, ...], Callable[[], Measurement]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """For each point: runs the function again at its sizes, to list every tensor."""
    beneath: Beneath | None = field(default=None, compare=False, repr=False)
    """The tensors of the program, also beneath the peak; None if they were not listed."""
    enforce: Callable[[Growth, Contract], None] | None = field(
        default=None, compare=False, repr=False
    )
    """Writes a row with the verdict on a contract, and raises if it fails the test."""
    first_run: str = field(default="", compare=False)
    """The line on a first run that needed other memory than the second; empty if it did not."""

    @property
    def polynomial(self) -> Polynomial | None:
        """The polynomial through every point, if it has points to spare; else None.

        Along one symbol, a length padded to a block is recognised: ``4*N + 128*ceil(N/32)``.
        """
        fit = over_grid(self.sizes, self.peaks)
        if confirmed(fit, self.sizes):
            return fit
        if len(self.sizes) == 1:
            ((symbol, sizes),) = self.sizes.items()
            return line(symbol, sizes, [self.peaks[size,] for size in sizes])
        return None

    @property
    def settled(self) -> Growth:
        """The growth over the largest sizes that have a fit, along one symbol; else over all."""
        ((symbol, sizes),) = self.sizes.items()
        fitted = tail(symbol, sizes, [self.peaks[size,] for size in sizes])
        if fitted is None:
            return self
        kept = sizes[fitted[0] :]
        return replace(self, sizes={symbol: kept}, peaks={(n,): self.peaks[n,] for n in kept})

    @property
    def formula(self) -> Formula:
        """The fit as the formula of a budget.

        Raises:
            BudgetError: no polynomial fits.
        """
        return parse_formula(str(self._fit()))

    def degree(self, symbol: str) -> int:
        """Returns the power of *symbol* that the peak grows with.

        Raises:
            BudgetError: *symbol* was not varied, or no polynomial fits.
        """
        if symbol not in self.sizes:
            raise BudgetError(f"{symbol} was not varied, only {', '.join(self.sizes)}")
        return self._fit().degree(symbol)

    def judge(self, contract: Contract) -> Judgement:
        """Returns the answer of these sizes on a contract.

        The peak is judged, and the tensors beneath it if they are known: at these sizes, a
        constant peak may hide a matrix that is the peak at larger sizes.
        """
        whole = judge_grid(self.sizes, self.peaks, contract, self.metric)
        if whole.answer is Answer.BROKEN:
            return whole
        notes = (self._note(contract), self.first_run)
        whole = replace(whole, note="; ".join(filter(None, notes)))
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
        ((symbol, sizes),) = self.settled.sizes.items()
        values = {self.peaks[size,] for size in sizes}
        if len(values) > 1:
            return ""
        text = f"the {self.metric} does not depend on {symbol} from {sizes[0]} to {sizes[-1]}"
        below = largest_part(self.beneath, contract) if self.beneath is not None else ""
        return f"{text}; {below}" if below else text

    def assert_within(self, contract: str) -> None:
        """Checks the growth against a contract such as ``O(N*d)``.

        Raises:
            BudgetExceeded: the growth is faster.
            BudgetError: the contract cannot be read, or the sizes give no answer.
        """
        parsed = parse_contract(contract)
        growth = self._with_beneath()
        judgement = growth.judge(parsed)
        if self.enforce is not None:
            self.enforce(growth, parsed)
        elif judgement.answer is Answer.BROKEN:
            raise BudgetExceeded(f"{judgement.reason}; the contract is {contract}\n{self}")
        if judgement.answer is Answer.UNKNOWN:
            first = f"; {self.first_run}" if self.first_run else ""
            raise BudgetError(f"{judgement.reason}; the contract is {contract}{first}")

    def _with_beneath(self) -> Growth:
        """Returns the growth with the tensors beneath the peak, if the function runs again."""
        if not self.traces or self.beneath is not None:
            return self
        try:
            runs = {at: trace() for at, trace in self.traces.items()}
        except Exception:  # raised by the function, which may not run twice
            return self
        return replace(self, beneath=beneath(self.sizes, runs, self.peaks, self.metric))

    def __str__(self) -> str:
        """Returns a line for each point, and one for a first run that differs."""
        since = self._phase()
        lines = [
            f"  {' '.join(f'{name}={size}' for name, size in zip(self.sizes, at, strict=True))}"
            f"   {format_size(peak)}{'   (another phase)' if at[0] < since else ''}"
            for at, peak in self.peaks.items()
        ]
        return "\n".join([*lines, f"  {self.first_run}"] if self.first_run else lines)

    def _phase(self) -> int:
        """Returns the size from which on one symbol's points have a fit; 0 if all or none do."""
        if len(self.sizes) > 1:
            return 0
        ((sizes,), settled) = (self.sizes.values(), self.settled)
        (kept,) = settled.sizes.values()
        return kept[0] if len(kept) < len(sizes) else 0

    def _fit(self) -> Polynomial:
        fit = self.polynomial
        if fit is not None:
            return fit
        since, settled = self._phase(), self.settled.polynomial
        later = f"; where {next(iter(self.sizes))} >= {since}, it is {settled}" if since else ""
        points = ", ".join(
            f"{format_size(peak)} at {' '.join(map(str, at))}" for at, peak in self.peaks.items()
        )
        first = f"; {self.first_run}" if self.first_run else ""
        raise BudgetError(
            f"no polynomial goes through {self.metric} at {self._listed()}{later}: {points}{first}"
        )

    def _listed(self) -> str:
        return ", ".join(
            f"{name}={'/'.join(map(str, sizes))}" for name, sizes in self.sizes.items()
        )


class GrowthFindings(NamedTuple):
    """The growth of a program in each symbol that can be varied."""

    growths: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()
    """Why symbols were not varied, or why the growth is not known."""


def grid(sizes: Mapping[str, Iterable[int]]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes to vary, sorted and without duplicates.

    Raises:
        BudgetError: there are too few sizes, or a value is not a size.
    """
    if not sizes:
        raise BudgetError("growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])")
    made: dict[str, tuple[int, ...]] = {}
    for name, values in sizes.items():
        listed: Sequence[int] = [values] if isinstance(values, int) else [*values]
        distinct = tuple(sorted({as_size("growth", name, value) for value in listed}))
        if len(distinct) < ENOUGH:
            raise BudgetError(
                f"growth needs {ENOUGH} sizes of {name} or more, got {len(distinct)}: two"
                f" determine a line, and {CONFIRMING} confirm it"
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
    """Measures ``fn(N=…)`` at each point of a grid of sizes, the largest last.

    The function runs twice at the first point, and the second run counts: the first may also fill
    caches and gradients.

    Raises:
        BudgetError: there are too few sizes, the function does not take one, or the metric was
            not measured.
    """
    made = grid(sizes)
    peaks: dict[tuple[int, ...], int] = {}
    largest: Measurement | None = None
    first_run = ""
    traces: dict[tuple[int, ...], Callable[[], Measurement]] = {}
    for at in product(*made.values()):
        named = dict(zip(made, at, strict=True))
        call = partial(fn, **named)
        largest, peaks[at] = _measured(measure, call, named, metric)
        if len(peaks) == 1:
            first = peaks[at]
            largest, peaks[at] = _measured(measure, call, named, metric)
            first_run = _first_run(first, peaks[at], named, metric)
        if trace is not None:
            traces[at] = partial(trace, call)
    return Growth(made, peaks, metric, largest, traces, first_run=first_run)


def _measured(
    measure: Callable[[Callable[[], Any]], Measurement],
    call: Callable[[], Any],
    named: Mapping[str, int],
    metric: str,
) -> tuple[Measurement, int]:
    """Returns the measurement of a call at *named* sizes, and its bytes."""
    listed = _sizes(named)
    try:
        measured = measure(call)
    except AttnMemError:
        raise
    except Exception as error:
        raise BudgetError(
            f"growth: the function raised {shown(error, 160)} at {listed}; vary over sizes"
            " that it takes"
        ) from error
    try:
        return measured, measured.known(metric)
    except BudgetError as error:
        raise BudgetError(f"growth: at {listed} {error}") from None


def _first_run(first: int, again: int, named: Mapping[str, int], metric: str) -> str:
    """Returns the line on a first run whose bytes differ from those of the second; or ""."""
    if first == again:
        return ""
    than = "more" if first > again else "less"
    return (
        f"{metric} at {_sizes(named)} was {format_size(abs(first - again))} {than} in the first run"
        " than in the second, which counts: gradients or a cache, most likely"
    )


def _sizes(named: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in named.items())
