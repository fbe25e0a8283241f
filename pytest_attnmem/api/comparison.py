"""Compares two measurements, and judges one by the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from ..budgets.budget import Budget, Obstacle, resolve
from ..budgets.parsing import parse
from ..budgets.tolerance import parse_share, parse_tolerance
from ..budgets.verdict import Outcome, Verdict, judge
from ..errors import BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from ..units import excerpt, format_distinct, format_size, shown

#: The types of ``max_ratio`` and ``min_saving``.
Ratio = int | float | Fraction | str
Saving = int | float | str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two measurements, and the verdict on the first."""

    new: Measurement
    base: Measurement
    verdict: Verdict
    metric: str

    @property
    def ratio(self) -> Fraction | None:
        """Returns new / base, exactly; None if either is unknown or base is 0."""
        new, base = self.new.value(self.metric), self.base.value(self.metric)
        return Fraction(new, base) if new is not None and base else None


def judge_comparison(
    new: Measurement,
    base: Measurement,
    bounds: tuple[Ratio | None, Saving | None],
    metric: str,
    where: object,
    shape: AttentionShape,
    names: tuple[str, str] = ("new", "base"),
) -> Verdict:
    """Returns the verdict on ``new``; ``bounds`` are ``max_ratio`` and ``min_saving``.

    ``names`` are those of the two in messages.

    Raises:
        BudgetError: a bound cannot be read.
    """
    base_bytes = base.value(metric)
    problem = _problem(base, metric)
    if base_bytes is None or problem:
        absent = f"the {names[1]} {problem}"
        lacking = Budget(None, where=where, metric=metric, absent=absent)
        return judge(new, replace(lacking, obstacle=Obstacle.NOT_COMPARED))
    limit, text = _limit(base_bytes, *bounds, shape, names[1])
    verdict = judge(new, Budget(limit, text, where=where, metric=metric))
    value = new.value(metric)
    if verdict.outcome is not Outcome.OVER or new.out_of_memory is not None or value is None:
        return verdict
    excess = _over(value, base_bytes, limit, names)
    return replace(verdict, reason=f"{metric} of {excess}, {text} on {new.place}")


def _over(value: int, base: int, limit: int, names: tuple[str, str]) -> str:
    """Returns ``new, 36.1 MiB, is 1.00x of base; allowed 28.9 MiB``."""
    size, most = format_distinct(value, limit)
    ratio = f"is {_times(value, base)} of" if base > 0 else "is over"
    return f"{names[0]}, {size}, {ratio} {names[1]}; allowed {most}"


def _times(value: int, base: int) -> str:
    hundredths = (value * 200 // base + 1) // 2  # rounded to the nearest
    return f"{hundredths // 100:,}.{hundredths % 100:02}x"


def _problem(base: Measurement, metric: str) -> str:
    """Returns why ``base`` cannot be compared with, as a predicate; empty if it can."""
    if base.out_of_memory is not None:
        return "ran out of memory"
    if base.unmeasured is not None:
        return f"was not measured: {base.unmeasured}"
    if base.value(metric) is None:
        missing = f": {base.missing}" if base.missing else ""
        return f"was not measured: {metric} is not measured on {base.backend}{missing}"
    if doubt := base.doubt(metric):
        return f"was not measured: {doubt}"
    return "" if base.allocations else "was not measured: nothing was allocated"


def _limit(
    base: int,
    max_ratio: Ratio | None,
    min_saving: Saving | None,
    shape: AttentionShape,
    name: str,
) -> tuple[int, str]:
    """Returns the limit on ``new`` in bytes, and in words."""
    if max_ratio is None and min_saving is None:
        max_ratio = 1
    limits: list[tuple[int, str]] = []
    if max_ratio is not None:
        ratio = _ratio(max_ratio)
        times = f"{max_ratio.strip()} of" if isinstance(max_ratio, str) else f"{max_ratio}x"
        limits.append((int(base * ratio), f"{times} {name} {format_size(base)}"))
    if min_saving is not None:
        saving = _saving(base, min_saving, shape)
        if saving > max(base, 0):
            raise BudgetError(
                f"min_saving={shown(min_saving)} is more than base, {format_size(base)}"
            )
        less = excerpt(str(min_saving), 120)
        limits.append((max(base - saving, 0), f"{name} {format_size(base)} less {less}"))
    return min(limits)


def _ratio(written: Ratio) -> Fraction:
    """Returns the exact ratio for a number or ``"50%"``."""
    refused = f"max_ratio={shown(written)} is not a ratio"
    share = parse_share(written) if isinstance(written, str) and len(written) <= 64 else None
    if share is not None:
        return share
    if isinstance(written, bool) or not isinstance(written, (int, float, Fraction)):
        raise BudgetError(f"{refused}; write a number (0.5) or a percentage ('50%')")
    fine = isinstance(written, Fraction) and written.denominator >> MAX_BITS
    if fine or not 0 <= written < 2**63:
        raise BudgetError(f"{refused}; expected 0 or more, below 2**63")
    # 0.1 means one tenth, not its binary; float() because numpy's floats have another repr.
    return Fraction(str(float(written)) if isinstance(written, float) else written)


def _saving(base: int, saving: Saving, shape: AttentionShape) -> int:
    """Returns the bytes of a share of base, a size or a formula."""
    share = isinstance(saving, str) and ("%" in saving or parse_share(saving) is not None)
    if share or isinstance(saving, (int, float)):
        return parse_tolerance(saving, "min_saving").allowance(base)
    nbytes = resolve(parse((saving,), {}), shape, ()).limit_bytes
    if nbytes is None:
        raise BudgetError(
            f"min_saving={shown(saving)} is not a number of bytes; write a share of base ('40%'),"
            " a size or a formula"
        )
    return nbytes
