"""Writes live sets as a formula: the largest of them, each with its terms and its regime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..formulas.envelope import envelope
from ..formulas.formula import parse_formula
from ..formulas.polynomial import Polynomial, largest
from .derived import CandidatePeak, Derived, Kind, Term
from .regimes import regime


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
