"""The growth of a peak with sizes: exact fits to measured points, judged by a contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import contains
from typing import NamedTuple

from ..errors import BudgetError, BudgetExceeded
from ..formulas.formula import Formula, parse_formula
from ..formulas.interpolation import CONFIRMING, confirmed, line, over_grid, shared, tail
from ..formulas.polynomial import Polynomial
from ..measurement.below_peak import Beneath, beneath
from ..measurement.measurement import Measurement
from ..symbols.names import WORLD
from ..units import format_count, format_points, format_size, format_values
from .growth_contract import Contract, parse_contract
from .growth_judgement import (
    Answer,
    Judgement,
    judge_beneath,
    judge_branches,
    judge_grid,
    largest_part,
    place,
)
from .growth_over_formula import Bytes, Judge, Sizes, judge_difference, judge_over, outgrown


@dataclass(frozen=True, slots=True)
class Growth:
    """Peaks over a grid of sizes, in whole bytes, and the exact fit to them."""

    sizes: Mapping[str, tuple[int, ...]]
    """The sizes of each symbol, the smallest first."""
    peaks: Mapping[tuple[int, ...], int]
    """Bytes at each point of the grid, keyed in the order of ``sizes``."""
    metric: str = "peak"
    formula_bytes: Mapping[tuple[int, ...], int] = field(default_factory=dict)
    """The bytes of the formula to which the contract is added, at each point; or nothing."""
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
        return line(*self._line) if len(self.sizes) == 1 else None

    @property
    def _line(self) -> tuple[str, tuple[int, ...], list[int]]:
        """The only symbol, its sizes, and the bytes at each."""
        ((symbol, sizes),) = self.sizes.items()
        return symbol, sizes, [self.peaks[size,] for size in sizes]

    @property
    def settled(self) -> Growth:
        """The growth over the largest sizes that have a fit, along one symbol; else over all."""
        if len(self.sizes) > 1:
            return self
        symbol, sizes, values = self._line
        fitted = tail(symbol, sizes, values)
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
        if (over := self._judge_over(contract)) is not None:
            return over
        whole = judge_grid(self.sizes, self.peaks, contract, self.metric)
        if whole.answer is Answer.BROKEN:
            return whole
        branch = None
        if whole.answer is Answer.KEPT and len(self.sizes) == 1:
            branch = judge_branches(*self._line, contract, self.metric)
        notes = (self._note(contract), self.first_run)
        whole = replace(whole, note="; ".join(filter(None, notes)))
        if self.beneath is None:
            return branch or whole
        kept = whole.answer is Answer.KEPT
        below = judge_beneath(self.beneath, contract, self.metric if kept else "")
        if below.answer is not Answer.KEPT or branch is not None:
            return min(below, branch or below, key=lambda one: one.answer)
        return whole if kept else replace(below, reason=whole.reason)

    def _judge_over(self, contract: Contract) -> Judgement | None:
        """Returns the answer for the bytes over a formula that outgrows the contract, or None."""
        if not self.formula_bytes:
            return None
        known = (self.sizes, self.peaks, self.formula_bytes, self.beneath, self.metric)
        return judge_over(self._judged_by(contract), *known)

    def _judged_by(self, contract: Contract) -> Judge:
        return lambda sizes, values, what: judge_difference(sizes, values, contract, what)

    def over(self, at: tuple[int, ...]) -> int:
        """Returns the bytes over the formula, if any: below 0 where the peak is smaller."""
        return self.peaks[at] - self.formula_bytes.get(at, 0)

    def _note(self, contract: Contract) -> str:
        """Returns the line on a symbol of the contract that the peak does not depend on."""
        if len(self.sizes) > 1 or not self.sizes.keys() <= contract.symbols:
            return ""
        symbol, sizes, values = self.settled._line
        if len({*values}) > 1:
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

    def __repr__(self) -> str:
        tried = " ".join(f"{name}={','.join(map(str, at))}" for name, at in self.sizes.items())
        return f"<{type(self).__name__}: {self.polynomial or 'no polynomial'}, of {tried}>"

    def __str__(self) -> str:
        """Returns a line for each point, and one for a first run that differs.

        Of a grid the points with the smallest or the largest size of each symbol are listed.
        """
        since = self._phase()
        ends = [(sizes[0], sizes[-1]) for sizes in self.sizes.values()]
        corners = [at for at in self.peaks if all(map(contains, ends, at))]
        listed = corners if len(self.sizes) > 1 else [*self.peaks]
        lines = [
            f"  {format_values(dict(zip(self.sizes, at, strict=True)))}"
            f"   {format_size(self.peaks[at])}{self._over_at(at)}"
            f"{'   (another phase)' if at[0] < since else ''}"
            for at in listed
        ]
        if others := len(self.peaks) - len(listed):
            lines.append(f"  and at {format_count(others, 'size')} between")
        return "\n".join([*lines, f"  {self.first_run}"] if self.first_run else lines)

    def _over_at(self, at: tuple[int, ...]) -> str:
        if not self.formula_bytes:
            return ""
        over = self.over(at)
        return f"   {format_size(over)} over the formula" if over > 0 else "   within the formula"

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
        few = self._too_few()
        since, settled = self._phase(), self.settled.polynomial
        later = f"; where {next(iter(self.sizes))} >= {since}, it is {settled}" if since else ""
        points = ", ".join(
            f"{format_size(peak)} at {' '.join(map(str, at))}" for at, peak in self.peaks.items()
        )
        first = f"; {self.first_run}" if self.first_run else ""
        tried = (f"{name}={'/'.join(map(str, sizes))}" for name, sizes in self.sizes.items())
        none = f"no polynomial goes through {self.metric} at {', '.join(tried)}{later}"
        raise BudgetError(f"{few or none}: {points}{first}")

    def _too_few(self) -> str:
        """Returns the line on a symbol with too few sizes to confirm a fit; empty if all have more.

        As many sizes as a polynomial has factors always have one; a parabola needs 3.
        """
        fit = over_grid(self.sizes, self.peaks)
        for symbol, sizes in self.sizes.items():
            degree = fit.degree(symbol)
            needed = (degree if degree + 1 < len(sizes) else 2) + 1 + CONFIRMING
            if len(sizes) < needed:
                told = f"how {self.metric} grows with {symbol}"
                return f"{len(sizes)} sizes of {symbol} cannot tell {told}; give {needed}"
        return ""


class GrowthFindings(NamedTuple):
    """The growth of a program in each symbol that can be varied."""

    growths: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()
    """Why symbols were not varied, or why the growth is not known."""
    jointly: Judgement | None = None
    """The answer for the bytes over a formula, of all symbols together; None without a formula."""


#: A world is measured, and worlds so many times as large: a number that divides into the parts of
#: the smallest world's ranks divides into theirs too, if it is a larger power of two.
FACTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, repr=False)
class WorldGrowth(Growth):
    """Peaks of one rank over the number of ranks ``W``, and the exact fit ``a/W + b + c*W``."""

    @property
    def polynomial(self) -> Polynomial | None:
        """The fit through every point, if it has points to spare; else None."""
        return shared(*self._line)

    @property
    def settled(self) -> WorldGrowth:
        """The growth itself: a rank's share may have shrunk to nothing in the largest worlds."""
        return self

    def judge(self, contract: Contract) -> Judgement:
        """Returns the worst answer for the metric and the tensors beneath it; unknown if no fit."""
        if (over := self._judge_over(contract)) is not None:
            return over
        _, sizes, values = self._line
        judged = _judge(sizes, values, contract, self.metric)
        if judged.answer is not Answer.KEPT or self.beneath is None:
            return judged
        below = [
            replace(_judge(sizes, part.values, contract, place(part.held)), held=part.held)
            for part in self.beneath.parts
        ]
        worst = min(below, key=lambda one: one.answer, default=judged)
        return judged if worst.answer is Answer.KEPT else worst

    def _judged_by(self, contract: Contract) -> Judge:
        def judged(sizes: Sizes, values: Bytes, what: str) -> Judgement:
            (worlds,) = sizes.values()
            return _judge(worlds, [values[at,] for at in worlds], contract, what)

        return judged


def _judge(sizes: Sequence[int], values: Sequence[int], contract: Contract, what: str) -> Judgement:
    fit = shared(WORLD, sizes, values)
    if fit is None:
        return Judgement(
            Answer.UNKNOWN,
            f"{what} is not a/{WORLD} + b + c*{WORLD}: {format_points(sizes, values)}; ranks have"
            f" unequal parts, or other tensors at the peak; take sizes that {WORLD} divides",
        )
    broken = contract.broken_by(fit, (WORLD,))
    terms = tuple(str(Polynomial({monomial: fit.terms[monomial]})) for monomial in broken)
    answer = outgrown(fit, contract, (WORLD,))
    if terms and answer is not Answer.BROKEN:  # less the bytes of a formula
        return Judgement(answer, f"{what} is {fit}, and negative terms may outgrow it")
    return Judgement(answer, f"{what} grows as {fit}", terms, "" if terms else f"{what} is {fit}")
