"""Growth contracts: ``O(N*d)`` says how fast memory may grow, and nothing of how much it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ..errors import BudgetError, FormulaError
from ..formulas.polynomial import Monomial, Polynomial, degree, expand
from ..symbols.names import ALIASES
from ..units import shown

_WRITTEN = re.compile(r"\s*O\s*\((.*)\)\s*", re.DOTALL)

#: What a contract may be made of, for messages.
_GRAMMAR = (
    "a growth contract is a sum of products of symbols, such as O(N*d), O(N^2) or O(N + d), or O(1)"
)


@dataclass(frozen=True, slots=True)
class Contract:
    """The products of symbols that bound the terms of a peak; ``O(1)`` has the empty product."""

    text: str
    allowed: tuple[Monomial, ...]

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the contract names; memory must not depend on any other."""
        return frozenset(atom for monomial in self.allowed for atom, _ in monomial)

    def degree(self, symbol: str) -> int:
        """Returns the highest power of *symbol* that is allowed: 0 for a symbol without a name."""
        return max(dict(monomial).get(symbol, 0) for monomial in self.allowed)

    def allows_all(self, symbols: Iterable[str]) -> bool:
        """Returns whether one product allows the highest powers of all *symbols* together."""
        return self._allows({symbol: self.degree(symbol) for symbol in symbols})

    def divides(self, symbols: Sequence[str]) -> bool:
        """Returns True if the product of all *symbols* is refused and each smaller one allowed."""
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
        """Returns the terms that grow faster in the *varied* symbols, the largest first.

        A negative term lets nothing grow.
        """
        symbols = {*varied} | self.symbols
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


def is_contract(text: str) -> bool:
    """Whether a limit is written as one."""
    return re.match(r"\s*O\s*\(", text) is not None


def parse_contract(text: str) -> Contract:
    """The contract that *text* spells.

    Raises:
        BudgetError: it is none; the text says what one is.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise BudgetError(f"cannot read contract {shown(text)}; {_GRAMMAR}")
    try:
        inside = expand(written[1])
    except (FormulaError, ValueError) as error:
        raise BudgetError(f"cannot read contract {shown(text)}: {error}; {_GRAMMAR}") from None
    allowed = tuple(_named(monomial) for monomial in inside.terms)
    odd = next((atom for m in allowed for atom, _ in m if not atom.isidentifier()), "")
    if odd:
        raise BudgetError(f"cannot read contract {shown(text)}: {odd} is no power; {_GRAMMAR}")
    if any(value < 0 for value in inside.terms.values()):
        raise BudgetError(f"cannot read contract {shown(text)}: nothing is subtracted; {_GRAMMAR}")
    if not allowed:
        raise BudgetError(f"cannot read contract {shown(text)}: it allows nothing; {_GRAMMAR}")
    return Contract(f"O({' '.join(written[1].split())})", allowed)


def _named(monomial: Monomial) -> Monomial:
    """With the field's other names for a symbol read as it."""
    powers: dict[str, int] = {}
    for atom, exponent in monomial:
        symbol = ALIASES.get(atom, atom)
        powers[symbol] = powers.get(symbol, 0) + exponent
    return tuple(sorted(powers.items()))
