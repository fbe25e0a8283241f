"""Writes live sets as a formula: the largest of them, each with its terms and its regime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm

from ..formulas.envelope import envelope
from ..formulas.formula import parse_formula
from ..formulas.polynomial import ONE, Monomial, Polynomial, degree, largest
from .derived import CandidatePeak, Derived, Kind, Term

#: The symbols in which a condition is written, the first that works.
_PREFERRED = ("N", "M", "B", "H", "layers", "d")


def regime(one: Polynomial, others: Iterable[Polynomial]) -> str:
    """Returns ``for N >= d``: where ``one`` is at least as large as all others.

    Empty if a condition is not linear in some symbol, with a factor of one sign.
    """
    found = dict.fromkeys(_condition(one - other) for other in others)
    return "" if not found or "" in found else f"for {' and '.join(found)}"


def _condition(difference: Polynomial) -> str:
    """Returns the condition under which a difference is not negative."""
    reduced = _without_common_factor(difference)
    known = reduced.atoms
    for symbol in (*(name for name in _PREFERRED if name in known), *known):
        if not symbol.isidentifier() or any(
            degree(monomial, symbol) > 1
            or (symbol not in dict(monomial) and degree(monomial, symbol))
            for monomial in reduced.terms
        ):
            continue
        factor, rest = _split(reduced, symbol)
        above_one = factor.shifted().terms  # of one sign, and not 0 at sizes of 1
        signs = {value > 0 for value in above_one.values()}
        if len(signs) == 1 and ONE in above_one:
            if signs == {True}:
                return f"{symbol} >= {_quotient(-rest, factor)}"
            return f"{symbol} <= {_quotient(rest, -factor)}"
    return ""


def _split(whole: Polynomial, symbol: str) -> tuple[Polynomial, Polynomial]:
    """Returns ``a`` and ``c`` of ``a*symbol + c``."""
    factor: dict[Monomial, Fraction] = {}
    rest: dict[Monomial, Fraction] = {}
    for monomial, value in whole.terms.items():
        if symbol in dict(monomial):
            factor[tuple(power for power in monomial if power[0] != symbol)] = value
        else:
            rest[monomial] = value
    return Polynomial(factor), Polynomial(rest)


def _without_common_factor(whole: Polynomial) -> Polynomial:
    """Returns the polynomial divided by the powers that all its terms have."""
    powers = [dict(monomial) for monomial in whole.terms]
    if not powers:
        return whole
    common = {atom: min(each.get(atom, 0) for each in powers) for atom in powers[0]}
    return Polynomial(
        {
            tuple(sorted((a, n - common.get(a, 0)) for a, n in monomial if n > common.get(a, 0))): v
            for monomial, v in whole.terms.items()
        }
    )


def _quotient(above: Polynomial, below: Polynomial) -> str:
    values = [*above.terms.values(), *below.terms.values()]
    scale = lcm(*(value.denominator for value in values))
    shared = gcd(*(int(value * scale) for value in values))
    above, below = (part.scaled(Fraction(scale, shared)) for part in (above, below))
    if str(below) == "1":
        return str(above)
    return f"{_bracketed(above)}/{_bracketed(below)}"


def _bracketed(part: Polynomial) -> str:
    terms: Sequence[Monomial] = [*part.terms]
    plain = len(terms) < 2 and "*" not in str(part)
    return str(part) if plain else f"({part})"


def written(
    sets: Mapping[Polynomial, Sequence[Kind]],
    usual: Mapping[str, int],
    region: Callable[[Sequence[Polynomial], Polynomial], str],
) -> Derived:
    """Returns the maximum of live sets; what is never the largest for sizes >= 2 is left out.

    The set that is the largest at the ``usual`` sizes comes first. ``region`` says in words where
    one of several polynomials is the largest, where no condition can be written.
    """
    bounds = largest(sorted(sets, key=lambda one: -one.value(usual)))
    kept = envelope(bounds, {})
    candidates = []
    for one in kept:
        others = [other for other in kept if other != one]
        where = (regime(one, others) or region(kept, one)) if others else ""
        kinds = tuple(sets[one])
        candidates.append(CandidatePeak(one, _terms(one, kinds), where, kinds))
    texts = [str(one) for one in kept]
    text = texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
    tree = parse_formula(text).tree
    return Derived(text, tree, tuple(candidates), bounds=bounds, live_sets=dict(sets))


def _terms(polynomial: Polynomial, kinds: Sequence[Kind]) -> tuple[Term, ...]:
    """Returns each term of the sum, with the tensors whose bytes have the same term."""
    totals = [(kind.size * kind.count, kind.holder) for kind in kinds]
    return tuple(
        Term(
            str(Polynomial({monomial: value})),
            tuple(
                holder
                for total, holder in sorted(totals, key=lambda one: -one[0].terms.get(monomial, 0))
                if monomial in total.terms
            ),
        )
        for monomial, value in polynomial.ordered()
    )
