"""Growth contracts: ``O(N*d)`` says how fast memory may grow, and nothing of how much it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import BudgetError, FormulaError
from .polynomial import Monomial, Polynomial, expand
from .shape import ALIASES
from .units import shown

_WRITTEN = re.compile(r"\s*O\s*\((.*)\)\s*", re.DOTALL)

#: What a contract may be made of, for messages.
_GRAMMAR = "a growth contract is a sum of products of symbols, such as O(N*d), O(N^2) or O(N + d)"


@dataclass(frozen=True, slots=True)
class Contract:
    """The products of symbols that may be among the terms of a peak, or divide them."""

    text: str
    allowed: tuple[Monomial, ...]

    @property
    def symbols(self) -> frozenset[str]:
        """Those that it names; of others it says nothing."""
        return frozenset(atom for monomial in self.allowed for atom, _ in monomial)

    def degree(self, symbol: str) -> int:
        """The highest power of *symbol* that it allows."""
        return max(dict(monomial).get(symbol, 0) for monomial in self.allowed)

    def broken_by(self, polynomial: Polynomial) -> tuple[Monomial, ...]:
        """The terms that grow faster, largest first; a negative one lets nothing grow."""
        return tuple(
            monomial
            for monomial, value in polynomial.terms.items()
            if value > 0 and not self._allows(monomial)
        )

    def _allows(self, monomial: Monomial) -> bool:
        powers = {
            symbol: sum(_degree(atom, symbol) * exponent for atom, exponent in monomial)
            for symbol in self.symbols
        }
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
    if not any(allowed):
        raise BudgetError(
            f"contract {shown(text)} names no symbol, so there is nothing to vary; {_GRAMMAR}"
        )
    return Contract(f"O({' '.join(written[1].split())})", allowed)


def _named(monomial: Monomial) -> Monomial:
    """With the field's other names for a symbol read as it."""
    powers: dict[str, int] = {}
    for atom, exponent in monomial:
        symbol = ALIASES.get(atom, atom)
        powers[symbol] = powers.get(symbol, 0) + exponent
    return tuple(sorted(powers.items()))


def _degree(atom: str, symbol: str) -> int:
    return Polynomial.atom(atom).degree(symbol)
