"""Judges measurements at several sizes by a growth contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from itertools import product
from math import prod
from operator import le

from ..formulas.interpolation import CONFIRMING, confirmed, differences, line, over_grid, tail
from ..formulas.polynomial import Polynomial
from ..measurement.below_peak import Beneath, PartBelowPeak
from ..measurement.held import Held
from ..units import format_points
from .growth_contract import Contract

#: The sizes that show how bytes rise where no form goes through them.
_MANY = 7


class Answer(IntEnum):
    """An answer on a contract. If there are several answers, the smallest counts."""

    BROKEN = 0
    UNKNOWN = 1
    KEPT = 2


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer, and the line that says why."""

    answer: Answer
    reason: str
    terms: tuple[str, ...] = ()
    """The terms that grow too fast, such as ``8*N^2``; empty if no fit is known."""
    note: str = ""
    """A remark for the reader of a kept contract."""
    held: Held | None = None
    """The tensor beneath the peak that breaks the contract."""
    hint: str = ""
    """What to do about a broken contract."""
    leak: bool = False
    """True if each run leaves memory that outlives the test."""


def judge_fit(fit: Polynomial, contract: Contract, varied: Sequence[str], what: str) -> Judgement:
    """Returns the answer for a known polynomial."""
    broken = contract.broken_by(fit, varied)
    reason = (
        f"{what} grows as {fit}"
        if any(fit.degree(name) for name in varied)
        else (f"{what} does not depend on {' or '.join(varied)}")
    )
    if not broken:
        return Judgement(Answer.KEPT, reason)
    terms = tuple(str(Polynomial({monomial: fit.terms[monomial]})) for monomial in broken)
    return Judgement(Answer.BROKEN, reason, terms)


def judge_grid(
    sizes: Mapping[str, tuple[int, ...]],
    values: Mapping[tuple[int, ...], int],
    contract: Contract,
    what: str,
) -> Judgement:
    """Returns the answer for bytes at each point of a grid of sizes."""
    for corner in _corners(sizes):
        fit = over_grid(corner, {at: values[at] for at in product(*corner.values())})
        if confirmed(fit, corner):
            return judge_fit(fit, contract, [*corner], what)
    worst = min(
        (
            judge_line(symbol, sizes[symbol], line, contract, what)
            for symbol in sizes
            for line in _lines(symbol, sizes, values)
        ),
        key=lambda judged: (judged.answer, not judged.terms),
    )
    # Each symbol alone may be allowed, but not their product. Along a line of the grid there are
    # few sizes, which bend upward where one phase overtakes another: without a fit, this does not
    # break the contract.
    product_hidden = worst.answer is Answer.KEPT and not contract.allows_all(sizes)
    bent = worst.answer is not Answer.KEPT and not worst.terms and len(sizes) > 1
    if product_hidden or bent:
        together = " and ".join(sizes)
        unclear = f"sizes cannot tell how {what} grows with {together} together"
        return Judgement(Answer.UNKNOWN, unclear)
    return worst


def _corners(sizes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yields the whole grid and, for several symbols, the corners with the largest sizes."""
    yield dict(sizes)
    if len(sizes) > 1:
        starts = product(*(range(len(axis) - CONFIRMING) for axis in sizes.values()))
        for start in sorted(starts, key=sum)[1:]:
            yield {name: axis[n:] for n, (name, axis) in zip(start, sizes.items(), strict=True)}


def _lines(
    symbol: str, sizes: Mapping[str, tuple[int, ...]], values: Mapping[tuple[int, ...], int]
) -> Iterator[list[int]]:
    """Yields the bytes along *symbol*, for each choice of the other sizes."""
    place = [*sizes].index(symbol)
    for others in product(*(axis for name, axis in sizes.items() if name != symbol)):
        before, after = others[:place], others[place:]
        points = [(*before, size, *after) for size in sizes[symbol]]
        yield [values[at] for at in points]


def judge_line(
    symbol: str, sizes: Sequence[int], values: Sequence[int], contract: Contract, what: str
) -> Judgement:
    """Returns the answer for bytes at growing *sizes* of *symbol*.

    A fit to the largest sizes decides. Without a fit, divided differences decide: if bytes grow no
    faster than a power, the differences of the next order are not above 0. They are above 0 too
    where a phase of that power takes over from another, so that they break a contract only if more
    than two such places were needed.
    """
    settled = tail(symbol, sizes, values)
    if settled is not None:
        start, fit = settled
        judged = judge_fit(fit, contract, (symbol,), what)
        since = f" where {symbol} >= {sizes[start]}" if start else ""
        return Judgement(judged.answer, judged.reason + since, judged.terms)
    degree = contract.degree(symbol)
    if len(sizes) < degree + 2:
        few = f"{len(sizes)} sizes of {symbol} cannot tell; give {degree + 2 + CONFIRMING}"
        return Judgement(Answer.UNKNOWN, few)
    bends = differences(sizes, values, degree + 1)
    power = symbol if degree == 1 else f"{symbol}^{degree}"
    faster = f"faster than {power}" if degree else f"with {symbol}"
    slower = f"no faster than {power}" if degree else f"with no {symbol}"
    if all(value <= 0 for value in bends):
        return Judgement(Answer.KEPT, f"no polynomial fits, and {what} grows {slower}")
    phases = 2 * (degree + 1) if degree else 0  # the differences that two places touch
    if all(value > 0 for value in bends) and len(bends) > phases:
        return Judgement(Answer.BROKEN, f"no polynomial fits, and {what} grows {faster}")
    if _levels_off(sizes, values, degree):
        return Judgement(Answer.KEPT, f"no polynomial fits, and {what} grows {slower}")
    return _unclear(symbol, sizes, values, what)


def _unclear(symbol: str, sizes: Sequence[int], values: Sequence[int], what: str) -> Judgement:
    points = format_points(sizes, values)
    return Judgement(Answer.UNKNOWN, f"sizes cannot tell how {what} grows with {symbol}: {points}")


def judge_branches(
    symbol: str, sizes: Sequence[int], values: Sequence[int], contract: Contract, what: str
) -> Judgement | None:
    """Returns the answer where some sizes need more than the form of the larger ones, or None.

    Another phase ends once. A branch, such as one for sizes that a block does not divide, returns,
    and may need more than the contract allows.
    """
    settled = tail(symbol, sizes, values)
    if settled is None:
        return None
    degree = contract.degree(symbol)
    forms = [settled[1].value({symbol: size}) for size in sizes]
    rates = [Fraction(value, size**degree) for size, value in zip(sizes, values, strict=True)]
    on = [at for at, form in enumerate(forms) if values[at] == form]
    most = max(rates[at] for at in on)
    off = range(on[0], settled[0])
    if any(values[at] > forms[at] and rates[at] > most for at in off):
        return _unclear(symbol, sizes, values, what)
    return None


def _levels_off(sizes: Sequence[int], values: Sequence[int], degree: int) -> bool:
    """Returns True if bytes rise no faster at the larger half of the sizes than at the smaller.

    Padding and remainders move bytes up and down a line; the rise is that since the smallest size,
    over the rise of the allowed power.
    """
    if len(sizes) < _MANY:
        return False
    rises = [
        Fraction(value - values[0], size**degree - sizes[0] ** degree) if degree else value
        for size, value in zip(sizes[1:], values[1:], strict=True)
    ]
    half = len(rises) // 2
    return max(rises[half:]) <= max(rises[:half])


def judge_beneath(beneath: Beneath, contract: Contract, peak: str) -> Judgement:
    """Returns the worst answer for the parts; *peak* is the metric that hides them, or empty."""
    hidden = f", beneath the {peak}," if peak else ""
    judged = [
        (_judge_part(part, beneath, contract, place(part.held) + hidden), part.held)
        for part in beneath.parts
    ]
    judged = [
        pair
        for pair, part in zip(judged, beneath.parts, strict=True)
        if pair[0].answer is not Answer.UNKNOWN or not _is_bounded_scratch(part, judged, beneath)
    ]
    if not judged:  # no tensor is left at the end, say
        return Judgement(Answer.KEPT, "")
    worst, held = min(judged, key=lambda pair: (pair[0].answer, not pair[0].terms))
    return Judgement(worst.answer, worst.reason, worst.terms, held=held)


def _judge_part(part: PartBelowPeak, beneath: Beneath, contract: Contract, what: str) -> Judgement:
    points = product(*beneath.sizes.values())
    values = dict(zip(points, part.values, strict=True))
    judged = judge_grid(beneath.sizes, values, contract, what)
    if judged.answer is Answer.KEPT or judged.terms:
        return judged
    return _judge_shape(part, beneath, contract, what) or judged


def _judge_shape(
    part: PartBelowPeak, beneath: Beneath, contract: Contract, what: str
) -> Judgement | None:
    """Returns the answer if one tensor's shape breaks the contract, along a single symbol.

    Fewer sizes prove a shape than bytes: each dimension is a line, whatever the number of tensors.
    A shape that keeps the contract proves nothing.
    """
    shapes = [held.shape for held in part.largest]
    if len(beneath.sizes) > 1 or len({*map(len, shapes)}) != 1:
        return None
    ((symbol, sizes),) = beneath.sizes.items()
    nbytes = Polynomial.constant(Fraction(part.held.nbytes, prod(part.held.shape)))
    for dimension in zip(*shapes, strict=True):
        fit = line(symbol, sizes, dimension)
        if fit is None:
            return None
        nbytes = nbytes * fit
    if any(
        nbytes.value({symbol: size}) != held.nbytes
        for size, held in zip(sizes, part.largest, strict=True)
    ):  # a view that repeats its elements
        return None
    judged = judge_fit(nbytes, contract, (symbol,), what)
    return judged if judged.answer is Answer.BROKEN else None


def _is_bounded_scratch(
    part: PartBelowPeak, judged: Sequence[tuple[Judgement, Held]], beneath: Beneath
) -> bool:
    """Returns True for scratch of kernels that is never larger than the allowed tensors.

    The scratch of a reduction starts at one size and stops growing at another, so it has no fit.
    A tensor of the program has a dtype, and must have a fit.
    """
    allowed = [
        other.values
        for (judgement, _), other in zip(judged, beneath.parts, strict=True)
        if judgement.answer is Answer.KEPT and other.held.dtype and len({*other.values}) > 1
    ]
    limits = [sum(values) for values in zip(*allowed, strict=True)]
    return not part.held.dtype and bool(limits) and all(map(le, part.values, limits))


def largest_part(beneath: Beneath, contract: Contract) -> str:
    """Returns a remark on the largest part that depends on the symbol; empty if no part does."""
    for part in beneath.parts:
        if len({*part.values}) > 1:
            judged = _judge_part(part, beneath, contract, place(part.held))
            return f"beneath it {judged.reason}"
    return ""


def place(held: Held) -> str:
    """Returns the operator of a tensor and its line, such as ``mul at attn.py:31``."""
    return f"{held.op} at {held.where}" if held.where else held.op
