"""A closed form that was derived from runs, and the tensors behind each of its terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from ..errors import FormulaError
from ..formulas.formula import Formula
from ..formulas.polynomial import Polynomial

#: Sizes that show how kernels pad.
_ODD = "[100, 130, 257, 391, 500, 645, 777]"


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor, or scratch, that is alive at the peak; its bytes are a formula."""

    bytes: str
    shape: str
    """Such as ``[B, H, N, N]``; empty for scratch inside a kernel."""
    dtype: str
    op: str
    where: str
    function: str = ""
    scratch: bool = False
    """True for memory that a kernel allocates for itself."""
    count: str = "1"
    """The number of such tensors, a formula: ``2``, ``layers``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Equal tensors of a live set."""

    holder: Holder
    size: Polynomial
    """The bytes of each."""
    count: Polynomial


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the closed form, and the tensors that hold it, largest first."""

    text: str
    held: tuple[Holder, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CandidatePeak:
    """A live set that is the largest at some sizes, and its bytes as a polynomial."""

    polynomial: Polynomial
    terms: tuple[Term, ...] = field(repr=False)
    region: str
    """The sizes at which it is the largest, ``for N >= d``, or the tried sizes at which it was;
    empty for the only candidate."""
    kinds: tuple[Kind, ...] = field(default=(), compare=False, repr=False)
    """The tensors of the live set."""


@dataclass(frozen=True, slots=True, repr=False)
class Derived(Formula):
    """A peak as a formula, usable as a budget: the maximum of its ``candidates``."""

    candidates: tuple[CandidatePeak, ...] = ()
    how: str = "derived"
    """``derived`` tensor by tensor, or ``interpolated`` from the peaks alone."""
    without_scratch: Derived | None = None
    """The formula of the program's tensors alone, if this one counts the scratch of kernels."""
    least: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The smallest size of a symbol for which the formula holds, where it is not 1."""
    most: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The largest size of a symbol for which the formula holds, where a larger one was run for
    which it does not."""
    steps: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The number that a symbol has to be a multiple of, where kernels pad it or code loops over
    blocks of it."""
    bounds: tuple[Polynomial, ...] = field(default=(), compare=False, repr=False)
    """The live sets that no other bounds at sizes >= 1."""
    live_sets: Mapping[Polynomial, Sequence[Kind]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """All live sets."""

    def value(self, symbols: Mapping[str, int | Fraction]) -> Fraction:
        """Returns the formula's value in bytes.

        Raises:
            FormulaError: *symbols* lacks a name, or the formula does not hold for a size.
        """
        for name, step in self.steps.items():
            if name in symbols and symbols[name] % step:
                raise FormulaError(
                    f"{self._quoted()} holds for multiples of {step} of {name}, not for"
                    f" {name}={symbols[name]}; derive with sizes={{'{name}': {_ODD}}} too"
                )
        for name, size in symbols.items():
            least, most = self.least.get(name, size), self.most.get(name, size)
            if least <= size <= most:
                continue
            bound = f">= {least}" if size < least else f"<= {most}"
            raise FormulaError(
                f"{self._quoted()} holds for {name} {bound}, not for {name}={size}, where the"
                f" program takes another way; write {name} as a number to derive that"
            )
        return Formula.value(self, symbols)

    @property
    def polynomial(self) -> Polynomial:
        """Returns the bytes of the live set that is the largest at usual sizes, with N above d."""
        return self.candidates[0].polynomial

    @property
    def terms(self) -> tuple[Term, ...]:
        """Returns the terms of that live set, with the tensors that hold each."""
        return self.candidates[0].terms

    @property
    def scratch(self) -> Polynomial:
        """Returns the bytes of the scratch in that live set."""
        if self.without_scratch is None:
            return Polynomial({})
        return self.polynomial - self.without_scratch.polynomial
