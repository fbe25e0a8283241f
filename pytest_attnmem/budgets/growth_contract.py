"""Growth contracts: ``O(N*d)`` bounds the growth of memory with sizes, not its amount."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from ..errors import BudgetError, FormulaError
from ..formulas.formula import Formula, parse_formula
from ..formulas.polynomial import ONE, Monomial, Polynomial, degree, expand
from ..formulas.syntax_tree import Binary, Node, Symbol
from ..symbols.names import ALIASES, WORLD
from ..units import shown

_WRITTEN = re.compile(r"\s*O\s*\((.*)\)\s*", re.DOTALL)
_BEGUN = re.compile(r"(?<!\w)[OoΘ]\s*\(")

#: 1 over the number of ranks, the only symbol that may divide, while a contract is read.
_INVERSE = "_1_over_W"

#: The grammar of a contract, for messages.
_GRAMMAR = (
    "a growth contract is a sum of products of symbols, such as O(N*d), O(N^2) or O(N + d), or O(1)"
)


@dataclass(frozen=True, slots=True)
class Contract:
    """The products of symbols that bound the terms of a peak; the product of ``O(1)`` is empty."""

    text: str
    allowed: tuple[Monomial, ...]

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the contract names; memory must not depend on any other."""
        return frozenset(atom for monomial in self.allowed for atom, _ in monomial)

    @property
    def allows_constant(self) -> bool:
        """True if the contract names a constant, as ``O(N + 1)`` and ``O(1)`` do."""
        return ONE in self.allowed

    def degree(self, symbol: str) -> int:
        """Returns the highest allowed power of *symbol*: 0 if the contract does not name it."""
        return max(dict(monomial).get(symbol, 0) for monomial in self.allowed)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Returns the largest product of the contract at *sizes*, rounded down.

        A symbol without a size counts as 1, and a product that it divides as 0.
        """
        return max(_product(monomial, sizes) for monomial in self.allowed)

    def without(self, symbol: str) -> Contract:
        """Returns the contract on all other symbols."""
        others = (tuple(f for f in monomial if f[0] != symbol) for monomial in self.allowed)
        return Contract(self.text, tuple(dict.fromkeys(others)))

    def undivided(self, symbol: str) -> Contract | None:
        """Returns the products that *symbol* does not divide, on all other symbols; or None."""
        kept = tuple(one for one in self.allowed if dict(one).get(symbol, 0) >= 0)
        return Contract(self.text, kept).without(symbol) if kept else None

    def allows_all(self, symbols: Iterable[str]) -> bool:
        """Returns True if one product allows the highest powers of all *symbols* together."""
        return self._allows({symbol: self.degree(symbol) for symbol in symbols})

    def divides(self, symbols: Sequence[str]) -> bool:
        """Returns True if a product of all *symbols* is not allowed, but each part of it is."""
        powers = [range(1, self.degree(symbol) + 1) for symbol in symbols]
        return any(
            not self._allows(dict(zip(symbols, chosen, strict=True)))
            and all(
                self._allows(dict(fewer))
                for fewer in combinations(zip(symbols, chosen, strict=True), len(symbols) - 1)
            )
            for chosen in product(*powers)
        )

    def broken_by(self, polynomial: Polynomial, varied: Iterable[str]) -> tuple[Monomial, ...]:
        """Returns the terms that the contract does not allow, the largest first.

        *varied* are the symbols that were varied: a symbol that was not is a number, also in a
        quotient such as ``1/W``. A negative term is always allowed.
        """
        symbols = {*varied} | {name for name in self.symbols if polynomial.degree(name)}
        return tuple(
            monomial
            for monomial, value in polynomial.ordered()
            if value > 0
            and not self._allows({symbol: degree(monomial, symbol) for symbol in symbols})
        )

    def _allows(self, powers: Mapping[str, int]) -> bool:
        return any(
            all(power <= dict(allowed).get(symbol, 0) for symbol, power in powers.items())
            for allowed in self.allowed
        )

    def __str__(self) -> str:
        return self.text


def _product(monomial: Monomial, sizes: Mapping[str, int]) -> int:
    if any(power < 0 and name not in sizes for name, power in monomial):
        return 0
    over: int = prod(sizes[name] ** -power for name, power in monomial if power < 0)
    times: int = prod(sizes.get(name, 1) ** power for name, power in monomial if power > 0)
    return times // over


def is_contract(text: str) -> bool:
    """Returns True if the text of a limit has a contract, or a slip of one: ``o(N)``."""
    return bool(contracts_in(text))


def contracts_in(text: str) -> list[int]:
    """Returns the places at which a contract, or a slip of one, begins in the text of a limit."""
    return [found.start() for found in _BEGUN.finditer(text)]


def parse_contract(text: str) -> Contract:
    """Returns the contract that *text* describes.

    Raises:
        BudgetError: *text* is not a contract.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise BudgetError(f"cannot read contract {shown(text)}; {_GRAMMAR}")
    try:
        inside = expand(Formula(written[1], _with_inverses(parse_formula(written[1]).tree)))
    except (FormulaError, ValueError) as error:
        raise BudgetError(f"cannot read contract {shown(text)}: {error}; {_GRAMMAR}") from None
    allowed = tuple(_named(monomial) for monomial in inside.terms)
    other = next((atom for m in allowed for atom, _ in m if not atom.isidentifier()), "")
    if other:
        raise BudgetError(f"cannot read contract {shown(text)}: {other} is not a power; {_GRAMMAR}")
    if any(value < 0 for value in inside.terms.values()):
        raise BudgetError(f"cannot read contract {shown(text)}: a term is subtracted; {_GRAMMAR}")
    if not allowed:
        raise BudgetError(f"cannot read contract {shown(text)}: it allows nothing; {_GRAMMAR}")
    return Contract(f"O({' '.join(written[1].split())})", allowed)


def _with_inverses(node: Node) -> Node:
    """Returns the tree with each quotient by the number of ranks as a product."""
    match node:
        case Binary("/", left, Symbol(name)) if name == WORLD:
            return Binary("*", _with_inverses(left), Symbol(_INVERSE))
        case Binary(operator, left, right):
            return Binary(operator, _with_inverses(left), _with_inverses(right))
    return node


def _named(monomial: Monomial) -> Monomial:
    """Returns the monomial with each alias of a symbol replaced by the symbol."""
    powers: dict[str, int] = {}
    for atom, exponent in monomial:
        if atom == _INVERSE:
            atom, exponent = WORLD, -exponent
        symbol = ALIASES.get(atom, atom)
        powers[symbol] = powers.get(symbol, 0) + exponent
    return tuple(sorted(powers.items()))
