"""Closed forms in a number that changes the program itself, such as its number of layers.

A program of three layers makes other tensors than one of two, so that their events cannot be
compared one by one. Each number has a form of its own; those of all numbers have to lie on lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import lcm

from ..errors import BudgetError
from ..formulas.polynomial import Polynomial
from .derived import Derived, Holder, Kind
from .terms import written


def linear_form(
    symbol: str, numbers: Sequence[int], form: Callable[[int], Derived], usual: Mapping[str, int]
) -> Derived:
    """Returns the closed form in ``symbol`` too, from the ``form`` of each of its numbers.

    Each live set that is the largest somewhere has to be one of a family of live sets, one for
    each number, whose bytes grow by the same polynomial from number to number.

    Raises:
        BudgetError: the peak is not linear in the symbol.
    """
    forms = {number: form(number) for number in sorted({*numbers})}
    families = dict(_families(symbol, forms))
    for number, one in forms.items():
        reached = {family[number] for family in families.values()}
        missing = [c.polynomial for c in one.candidates if c.polynomial not in reached]
        if missing:
            listed = ", ".join(map(str, forms))
            raise BudgetError(
                f"the peak is not linear in {symbol} at {symbol}={listed}: {missing[0]} at"
                f" {symbol}={number} is on no line; give {symbol} as a number"
            )
    sets = {
        whole: _kinds(symbol, {n: forms[n].live_sets[one] for n, one in family.items()})
        for whole, family in families.items()
    }
    last = max(forms)
    made = written(sets, {**usual, symbol: last}, lambda kept, one: "")
    least: dict[str, int] = {symbol: min(forms)} if min(forms) > 1 else {}
    most: dict[str, int] = {}
    steps: dict[str, int] = {}
    for one in forms.values():
        for name, size in one.least.items():
            least[name] = max(size, least.get(name, 1))
        for name, size in one.most.items():
            most[name] = min(size, most.get(name, size))
        for name, step in one.steps.items():
            steps[name] = lcm(step, steps.get(name, 1))
    hows = {one.how for one in forms.values()}
    how = "derived" if hows == {"derived"} else "interpolated"
    return replace(made, least=least, most=most, steps=steps, how=how)


def _families(
    symbol: str, forms: Mapping[int, Derived]
) -> Iterator[tuple[Polynomial, dict[int, Polynomial]]]:
    """Yields the lines through live sets: the form in ``symbol``, and the set at each number."""
    first, second, *_ = forms
    atom = Polynomial.atom(symbol)
    for low in forms[first].live_sets:
        for high in forms[second].live_sets:
            slope = (high - low).scaled(Fraction(1, second - first))
            family = {number: low + slope.scaled(number - first) for number in forms}
            if all(one in forms[number].live_sets for number, one in family.items()):
                yield low + slope * (atom - Polynomial.constant(first)), family


def _kinds(symbol: str, sets: Mapping[int, Sequence[Kind]]) -> tuple[Kind, ...]:
    """Returns the kinds of tensors of a family, with the number of each as a formula.

    A kind whose number is not linear is left out; the bytes of the live set do not need it.
    """
    counts: dict[Holder, dict[int, Polynomial]] = {}
    sizes: dict[Holder, Polynomial] = {}
    for number, kinds in sets.items():
        for kind in kinds:
            plain = replace(kind.holder, count="1")
            counts.setdefault(plain, {})[number] = kind.count
            sizes[plain] = kind.size
    first, second, *_ = sets
    made = []
    zero = Polynomial.constant(0)
    for plain, known in counts.items():
        low, high = known.get(first, zero), known.get(second, zero)
        slope = (high - low).scaled(Fraction(1, second - first))
        line = low + slope * (Polynomial.atom(symbol) - Polynomial.constant(first))
        if all(known.get(n, zero) == low + slope.scaled(n - first) for n in sets):
            made.append(Kind(replace(plain, count=str(line)), sizes[plain], line))
    return tuple(made)
