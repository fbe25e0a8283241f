"""Tolerances: the share or the bytes by which a measurement may miss its limit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NoReturn

from ..errors import BudgetError, SizeError
from ..units import format_exact, parse_size, shown

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_FRACTION = re.compile(r"0?\.[0-9]+|0")
_BARE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_ACCEPTED = "write a fraction (0.05), a percentage ('5%'), a size ('1 MiB') or both ('2%+1MiB')"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A share of the limit and a number of bytes; the larger of the two counts."""

    share: Fraction = Fraction(0)
    nbytes: int = 0

    def allowance(self, limit: int) -> int:
        """Returns the whole bytes by which a value may differ from ``limit``."""
        return max(int(self.share * limit), self.nbytes)

    def __str__(self) -> str:
        percent = Decimal(self.share.numerator * 100) / self.share.denominator
        share = f"{percent.normalize():f}%" if self.share else ""
        nbytes = format_exact(self.nbytes).replace(" ", "") if self.nbytes else ""
        return "+".join(filter(None, (share, nbytes))) or "0"


NONE = Tolerance()


def parse_share(text: str) -> Fraction | None:
    """Returns the share for ``"5%"`` or ``"0.05"``; None for other text."""
    if percent := _PERCENT.fullmatch(text.strip()):
        return Fraction(percent[1]) / 100
    return Fraction(text.strip()) if _FRACTION.fullmatch(text.strip()) else None


def parse_tolerance(value: object, name: str = "tolerance") -> Tolerance:
    """Returns the tolerance for ``0``, ``0.05``, ``"5%"``, ``"1 MiB"`` or ``"2%+1MiB"``.

    Raises:
        BudgetError: *value* is something else, or a bare 5, which could be percent or bytes. The
            message names the option *name*.
    """
    refused = f"cannot read {name} {shown(value)}"
    if isinstance(value, Tolerance):
        return value
    if isinstance(value, str) and len(value) <= 64:
        return _parse_text(value, refused)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if 0 <= value < 1:  # 0.05 means 5%, not its binary
            return Tolerance(share=Fraction(str(float(value))))
        if 1 <= value < 10**15:
            exact = Fraction(str(value))
            _refuse_bare(refused, str(exact if exact.denominator == 1 else value))
    raise BudgetError(f"{refused}; {_ACCEPTED}")


def _refuse_bare(refused: str, number: str) -> NoReturn:
    in_bytes = "" if "." in number else f" or '{number} B'"
    raise BudgetError(f"{refused}: {number} has no unit; write '{number}%'{in_bytes}")


def _parse_text(text: str, refused: str) -> Tolerance:
    shares: list[Fraction] = []
    sizes: list[int] = []
    for part in map(str.strip, text.split("+")):
        share = parse_share(part)
        try:
            if share is not None:
                shares.append(share)
            elif _BARE.fullmatch(part):
                _refuse_bare(refused, part)
            else:
                sizes.append(parse_size(part))
        except SizeError as error:
            raise BudgetError(f"{refused}; {_ACCEPTED}") from error
    if len(shares) > 1 or len(sizes) > 1:
        raise BudgetError(f"{refused}: it has two shares or two sizes; {_ACCEPTED}")
    return Tolerance(sum(shares, Fraction(0)), sum(sizes))
