"""Exact polynomials over symbols with rational coefficients; peaks are such polynomials.

An atom is a symbol (``N``) or a part of a formula that stands for one (``ceil(N/32)``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from types import MappingProxyType

from ..errors import FormulaError
from ..units import excerpt
from . import syntax_tree
from .formula import Formula, parse_formula
from .syntax_tree import Binary, Call, Negation, Node, Number, Symbol

#: Atoms and their powers, sorted by atom: ``(("N", 2), ("d", 1))``; empty for a constant. Only the
#: fit to worlds of several sizes and growth contracts have a power below 0: ``(("W", -1),)``.
Monomial = tuple[tuple[str, int], ...]

ONE: Monomial = ()

_NOTHING: Mapping[str, int | Fraction] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of monomials with coefficients other than 0."""

    terms: Mapping[Monomial, Fraction]

    def __post_init__(self) -> None:
        kept = {monomial: value for monomial, value in self.terms.items() if value}
        object.__setattr__(self, "terms", MappingProxyType(kept))

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    @classmethod
    def constant(cls, value: int | Fraction) -> Polynomial:
        """Returns a constant polynomial."""
        return cls({ONE: Fraction(value)})

    @classmethod
    def atom(cls, text: str) -> Polynomial:
        """Returns the polynomial of one atom."""
        return cls({((text, 1),): Fraction(1)})

    def __add__(self, other: Polynomial) -> Polynomial:
        return _sum([*self.terms.items(), *other.terms.items()])

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -value for monomial, value in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _sum(
            (times(mine, theirs), value * factor)
            for mine, value in self.terms.items()
            for theirs, factor in other.terms.items()
        )

    def scaled(self, factor: int | Fraction) -> Polynomial:
        """Returns the product with a number."""
        return Polynomial({monomial: value * factor for monomial, value in self.terms.items()})

    def power(self, exponent: int) -> Polynomial:
        """Returns the polynomial to a power."""
        result = Polynomial.constant(1)
        for _ in range(exponent):
            result = result * self
        return result

    @property
    def atoms(self) -> tuple[str, ...]:
        """Returns its atoms, sorted."""
        return tuple(sorted({atom for monomial in self.terms for atom, _ in monomial}))

    def degree(self, symbol: str) -> int:
        """Returns the highest power of *symbol*; a ceiling counts as its operand."""
        return max((degree(monomial, symbol) for monomial in self.terms), default=0)

    def value(self, values: Mapping[str, int | Fraction]) -> Fraction:
        """Returns its value; every symbol needs a value."""
        known = {
            atom: values[atom] if atom in values else parse_formula(atom).value(values)
            for atom in self.atoms
        }
        total = Fraction(0)
        for monomial, coefficient in self.terms.items():
            for atom, exponent in monomial:
                coefficient *= Fraction(known[atom]) ** exponent
            total += coefficient
        return total

    def bounds(self, other: Polynomial) -> bool:
        """Returns True if it is provably never smaller than *other* for atoms >= 1.

        A polynomial is never negative there if, shifted by one, it has no negative coefficient.
        """
        difference = self - other
        return all(value >= 0 for value in difference.shifted().terms.values())

    def shifted(
        self, by: Mapping[str, int | Fraction] = _NOTHING, otherwise: int = 1
    ) -> Polynomial:
        """Returns the polynomial with every atom increased, ``by`` what is given or else by 1.

        What is not a symbol, such as a ceiling, is increased by 1.
        """
        steps = {
            atom: Fraction(by.get(atom, otherwise) if atom.isidentifier() else 1)
            for atom in self.atoms
        }
        return _sum(
            (monomial, coefficient * factor)
            for given, coefficient in self.terms.items()
            for monomial, factor in _shifted(given, steps)
        )

    def ordered(self) -> list[tuple[Monomial, Fraction]]:
        """Returns the terms in the order in which they are written, the highest degree first."""
        return sorted(self.terms.items(), key=_order)

    def __repr__(self) -> str:
        return f"<Polynomial: {excerpt(str(self), 200)}>"

    def __str__(self) -> str:
        """Returns the text of a budget: ``12*B*H*N^2 + 8*B*H*N*d + 8``."""
        text = ""
        for monomial, value in self.ordered():
            sign = "-" if value < 0 else "+"
            body = _term(monomial, abs(value))
            text += f" {sign} {body}" if text else (f"-{body}" if value < 0 else body)
        return text or "0"


def times(left: Monomial, right: Monomial) -> Monomial:
    """Returns the product of two monomials."""
    exponents = dict(left)
    for atom, exponent in right:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted((atom, exponent) for atom, exponent in exponents.items() if exponent))


def degree(monomial: Monomial, symbol: str) -> int:
    """Returns the power of *symbol* in a monomial; a ceiling counts as its operand."""
    total = 0
    for atom, exponent in monomial:
        if not atom.isidentifier():
            total += int(parse_formula(atom).degree(symbol)) * exponent
        elif atom == symbol:
            total += exponent
    return total


def expand(formula: Formula | str, known: Mapping[str, int | Fraction] = _NOTHING) -> Polynomial:
    """Returns the formula as a polynomial; its ceilings, quotients, minima and maxima are atoms.

    Symbols in ``known`` are replaced by their values.

    Raises:
        FormulaError: an exponent is not a whole number, so the formula is not a polynomial.
    """
    tree = parse_formula(formula).tree if isinstance(formula, str) else formula.tree
    return _expand(syntax_tree.substitute(tree, known))


def largest(candidates: Iterable[Polynomial]) -> tuple[Polynomial, ...]:
    """Returns the candidates that no other candidate provably bounds, in their order."""
    kept: list[Polynomial] = []
    for candidate in candidates:
        if not any(other.bounds(candidate) for other in kept):
            kept = [other for other in kept if not candidate.bounds(other)]
            kept.append(candidate)
    return tuple(kept)


def _expand(node: Node) -> Polynomial:
    match node:
        case Number(value):
            return Polynomial.constant(value)
        case Symbol(name):
            return Polynomial.atom(name)
        case Negation(operand):
            return -_expand(operand)
        case Binary("+", left, right):
            return _expand(left) + _expand(right)
        case Binary("-", left, right):
            return _expand(left) - _expand(right)
        case Binary("*", left, right):
            return _expand(left) * _expand(right)
        case Binary("/", left, Number(value)) if value:
            return _expand(left).scaled(1 / value)
        case Binary("^", base, Number(value)) if value.denominator == 1 and value >= 0:
            return _expand(base).power(int(value))
        case Binary("^"):
            raise FormulaError(
                f"{syntax_tree.render(node)} has an exponent that is not a whole number"
            )
        case Call() | Binary() if not syntax_tree.symbols(node):
            return Polynomial.constant(syntax_tree.evaluate(node, {}))
    return Polynomial.atom(syntax_tree.render(node))


def _sum(pairs: Iterable[tuple[Monomial, Fraction]]) -> Polynomial:
    terms: dict[Monomial, Fraction] = {}
    for monomial, value in pairs:
        terms[monomial] = terms.get(monomial, Fraction(0)) + value
    return Polynomial(terms)


def _shifted(
    monomial: Monomial, steps: Mapping[str, Fraction]
) -> Iterator[tuple[Monomial, Fraction]]:
    """Yields the terms of a product of powers of ``atom + step``."""
    if not monomial:
        yield ONE, Fraction(1)
        return
    (atom, exponent), rest = monomial[0], monomial[1:]
    for others, factor in _shifted(rest, steps):
        for kept in range(exponent + 1):
            power: Monomial = ((atom, kept),) if kept else ONE
            step = steps[atom] ** (exponent - kept)
            yield times(power, others), factor * comb(exponent, kept) * step


def _order(term: tuple[Monomial, Fraction]) -> tuple[int, list[tuple[int, str, int]]]:
    """Returns the sort key of a term: by degree, then by powers of the earlier symbols."""
    monomial, _ = term
    factors = [(_rank(atom), atom, -exponent) for atom, exponent in _in_order(monomial)]
    return -sum(exponent for _, exponent in monomial), factors


def _in_order(monomial: Monomial) -> list[tuple[str, int]]:
    """Returns the factors in their usual order: B, H, Hkv, N, M, d, dv, then others."""
    return sorted(monomial, key=lambda factor: (_rank(factor[0]), factor[0]))


def _rank(atom: str) -> int:
    return _RANKS.get(atom, len(_RANKS))


_RANKS = MappingProxyType(
    {name: rank for rank, name in enumerate(("B", "H", "Hkv", "N", "M", "d", "dv", "itemsize"))}
)


def _power(atom: str, exponent: int) -> str:
    return atom if exponent == 1 else f"{atom}^{exponent}"


def _term(monomial: Monomial, value: Fraction) -> str:
    powers = [(_power(atom, abs(exponent)), exponent) for atom, exponent in _in_order(monomial)]
    factors = [text for text, exponent in powers if exponent > 0]
    if value.numerator != 1 or not factors:
        factors.insert(0, str(value.numerator))
    text = "/".join(["*".join(factors), *(text for text, exponent in powers if exponent < 0)])
    return text if value.denominator == 1 else f"{text}/{value.denominator}"
