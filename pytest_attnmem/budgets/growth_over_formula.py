"""Judges the bytes over a formula by a growth contract: ``P/W*18 + O(N*d)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil
from typing import NamedTuple

from ..formulas.interpolation import confirmed, over_grid, tail
from ..formulas.polynomial import ONE, Monomial, Polynomial, degree
from ..measurement.below_peak import Beneath, PartBelowPeak, together
from ..units import format_size
from .growth_contract import Contract
from .growth_judgement import Answer, Judgement, judge_grid, place

#: The sizes of each symbol of a grid, and the bytes at each of its points.
Sizes = Mapping[str, tuple[int, ...]]
Bytes = Mapping[tuple[int, ...], int]

#: Judges bytes over a grid; the last argument names them.
Judge = Callable[[Sizes, Bytes, str], Judgement]


def judge_over(
    judge: Judge, sizes: Sizes, peaks: Bytes, formula: Bytes, beneath: Beneath | None, metric: str
) -> Judgement | None:
    """Returns the answer for the bytes over a formula; None if the formula changes no answer.

    It changes none if it keeps the contract itself: then the peak keeps the contract if and only if
    the bytes over the formula do.

    A tensor beneath the peak may be one that the formula counts. The tensors that do not keep the
    contract are judged together: a peak is at least as large as their sum at any moment, and all
    other tensors keep the contract.
    """
    if judge(sizes, formula, "the formula").answer is Answer.KEPT:
        return None
    over = {at: peaks[at] - formula[at] for at in peaks}
    whole = judge(sizes, over, f"{metric} over the formula")
    if whole.answer is Answer.BROKEN or beneath is None:
        return whole
    points = [*product(*beneath.sizes.values())]

    def judged(values: Sequence[int], what: str, *, over: bool) -> Judgement:
        counted = [formula[at] if over else 0 for at in points]
        left = [value - known for value, known in zip(values, counted, strict=True)]
        return judge(beneath.sizes, dict(zip(points, left, strict=True)), what)

    fast = [
        part
        for part in beneath.parts
        if judged(part.values, "", over=False).answer is not Answer.KEPT
    ]
    if not fast:
        return replace(whole, answer=Answer.KEPT)
    what = _named(fast, metric)
    tensors = together(fast, at_end=metric == "retained")
    below = judged(tensors, what, over=True)
    scratch = [part.values for part in fast if not part.spans]
    if below.answer is Answer.KEPT and scratch:  # scratch of kernels has no moments
        most = [sum(values) for values in zip(tensors, *scratch, strict=True)]
        below = judged(most, what, over=True)
        if below.answer is Answer.BROKEN:
            below = replace(below, answer=Answer.UNKNOWN)
    if below.answer is Answer.UNKNOWN:  # a peak is at least as large as some of them, too
        alone = ((part, judged(part.values, "", over=False)) for part in fast)
        sure = [part for part, one in alone if one.answer is Answer.BROKEN]
        for some in (sure, *([part] for part in sure)):
            if some:
                values = together(some, at_end=metric == "retained")
                proof = judged(values, _named(some, metric), over=True)
                if proof.answer is Answer.BROKEN:
                    return replace(proof, held=some[0].held)
    if below.answer is Answer.KEPT:
        return replace(whole, answer=Answer.KEPT)
    return replace(below, held=fast[0].held)


def judge_difference(sizes: Sizes, values: Bytes, contract: Contract, what: str) -> Judgement:
    """Returns the answer for bytes that may be below 0: a peak, less the bytes of a formula.

    Unlike the bytes of a program, they may have a large negative term: if no positive term outgrows
    it, they are bounded.
    """
    judged = judge_grid(sizes, values, contract, what)
    if judged.answer is not Answer.BROKEN:
        return judged
    if len(sizes) > 1:
        fit = over_grid(sizes, values)
        exact = confirmed(fit, sizes)
    else:
        ((symbol, axis),) = sizes.items()
        settled = tail(symbol, axis, [values[size,] for size in axis])
        if settled is None:
            return judged
        exact, fit = True, settled[1]
    answer = outgrown(fit, contract, [*sizes]) if exact else Answer.UNKNOWN
    unclear = f"sizes cannot tell how {what} grows with {' and '.join(sizes)} together"
    return judged if answer is Answer.BROKEN else Judgement(answer, unclear)


def outgrown(fit: Polynomial, contract: Contract, varied: Sequence[str]) -> Answer:
    """Returns the answer for a polynomial some of whose terms may be negative."""

    def power(monomial: Monomial) -> int:
        return sum(degree(monomial, name) for name in varied)

    broken = contract.broken_by(fit, varied)
    if not broken:
        return Answer.KEPT
    highest = max(map(power, broken))
    beside = {m for m, value in fit.terms.items() if value < 0 and power(m) >= highest}
    if not beside:
        return Answer.BROKEN
    top = max(map(power, fit.terms))
    leading = {monomial for monomial in fit.terms if power(monomial) == top}
    return Answer.KEPT if len(varied) == 1 and leading <= beside else Answer.UNKNOWN


def around(
    symbol: str, sizes: Sequence[int], values: Sequence[int], own: int
) -> tuple[tuple[int, ...], Polynomial] | None:
    """Returns the sizes around *own* that show a form, and the form; None if they show none.

    Larger sizes may be of another phase.
    """
    at = sizes.index(own)
    for end in range(len(sizes), at, -1):
        settled = tail(symbol, sizes[:end], values[:end])
        if settled is not None and settled[0] <= at:
            return tuple(sizes[settled[0] : end]), settled[1]
    return None


def constant(fit: Polynomial) -> int:
    """Returns the bytes of a form that no symbol changes, rounded up."""
    return ceil(fit.terms.get(ONE, Fraction(0)))


class Allowed(NamedTuple):
    """A contract, and the test's own sizes of its symbols."""

    contract: Contract
    sizes: Mapping[str, int]


def judge_fixed(
    nbytes: int | None, over: int, metric: str, symbols: Sequence[str], allowed: Allowed
) -> Judgement:
    """Returns the answer for the bytes over a formula that none of *symbols* changes.

    *over* are all bytes over the formula at the test's own sizes: none of them are fixed if there
    are none. As many as the contract has at these sizes are within it at all larger sizes, with a
    factor that is greater by 1.
    """
    contract, most = allowed.contract, allowed.contract.at(allowed.sizes)
    names = " and ".join(symbols)
    total = f"{metric} is {format_size(over)} over the formula"
    if over <= 0:
        return Judgement(Answer.KEPT, "", note=f"{metric} is within the formula")
    if nbytes is None:
        unclear = f"{total}, and sizes cannot tell how much of it grows with {names}"
        return Judgement(Answer.UNKNOWN, unclear)
    if nbytes <= most:
        return Judgement(Answer.KEPT, "", note=total)
    any_ = f"{contract.text.removesuffix(')')} + 1)"
    return Judgement(
        Answer.BROKEN,
        f"{total}, of which {format_size(nbytes)} do not grow with {names}",
        hint=f"add bytes that do not grow to the formula, or allow any number of them: {any_}",
    )


def _named(parts: Sequence[PartBelowPeak], metric: str) -> str:
    """Returns the words for tensors that grow fast, by the largest."""
    more = f" with {len(parts) - 1} more" if len(parts) > 1 else ""
    return f"{place(parts[0].held)}{more}, beneath the {metric}, over the formula"
