"""How far over a limit is still within it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from .arithmetic import MAX_BITS
from .errors import BudgetError, SizeError
from .units import format_exact, parse_size, shown

#: Pytest shows where the test called, and not our frames below it.
__tracebackhide__ = True

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_FRACTION = re.compile(r"0?\.[0-9]+|0")
_ACCEPTED = "write a fraction (0.05), a percentage ('5%'), a size ('1 MiB') or both ('2%+1MiB')"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A share of the limit and a number of bytes; only what exceeds both is over."""

    share: Fraction = Fraction(0)
    nbytes: int = 0

    def allowance(self, limit: int) -> int:
        """Whole bytes that a value may lie away from ``limit``."""
        return max(int(self.share * limit), self.nbytes)

    def __str__(self) -> str:
        percent = Decimal(self.share.numerator * 100) / self.share.denominator
        share = f"{percent.normalize():f}%" if self.share else ""
        nbytes = format_exact(self.nbytes).replace(" ", "") if self.nbytes else ""
        return "+".join(filter(None, (share, nbytes))) or "0"


#: Not a byte.
NONE = Tolerance()


def parse_tolerance(value: object) -> Tolerance:
    """Read ``0.05``, ``"5%"``, ``"1 MiB"``, ``"2%+1MiB"`` or a number of bytes.

    Raises:
        BudgetError: anything else.
    """
    if isinstance(value, Tolerance):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << MAX_BITS:
        return Tolerance(nbytes=value)
    if isinstance(value, float) and 0 <= value < 1:
        return Tolerance(
            share=Fraction(str(float(value)))
        )  # 0.05 is what was meant, not its binary
    if isinstance(value, str) and len(value) <= 64:
        return _parse_text(value)
    raise BudgetError(f"cannot read tolerance {shown(value)}; {_ACCEPTED}")


def _parse_text(text: str) -> Tolerance:
    shares: list[Fraction] = []
    sizes: list[int] = []
    for part in map(str.strip, text.split("+")):
        percent = _PERCENT.fullmatch(part)
        try:
            if percent:
                shares.append(Fraction(percent[1]) / 100)
            elif _FRACTION.fullmatch(part):
                shares.append(Fraction(part))
            else:
                sizes.append(parse_size(part))
        except SizeError as error:
            raise BudgetError(f"cannot read tolerance {shown(text)}; {_ACCEPTED}") from error
    if len(shares) > 1 or len(sizes) > 1:
        raise BudgetError(f"cannot read tolerance {shown(text)}: it has two of a kind; {_ACCEPTED}")
    return Tolerance(sum(shares, Fraction(0)), sum(sizes))
