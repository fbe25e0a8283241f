"""The table of ``attnmem verify``: bytes of the reference, and the differences of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..units import format_count
from .comparison import KINDS, Row
from .device_facts import differing
from .document import Verification

_SAME = "="
_UNKNOWN = "–"


def render(found: Verification) -> list[str]:
    """Returns the device, the table, the reasons for what is missing, and the sums."""
    others = list(found.rows[0].others) if found.rows else []
    return [
        *_head(found),
        "",
        *_table(found.rows, others),
        *_problems(found.rows),
        "",
        summary(found.rows),
    ]


def _head(found: Verification) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items() if number)
    device = found.device.get("name", found.profile)
    yield f"{device} ({versions}), beside the profile {found.profile}"
    for name, (its, ours) in differing(found.device, found.expected).items():
        yield f"  {name}: {_shown(its)} on the device, {_shown(ours)} in the profile"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(rows: Sequence[Row], others: Sequence[str]) -> Iterator[str]:
    head = ("workload", *KINDS, *(f"{name} more" for name in others))
    cells = [head, *(_cells(row, others) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        first, *rest = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        numbers = [cell.strip().rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([first, *numbers]).rstrip()


def _cells(row: Row, others: Sequence[str]) -> tuple[str, ...]:
    known = row.reference.known
    numbers = [f"{getattr(row.reference, kind):,}" if known else _UNKNOWN for kind in KINDS]
    return (row.name, *numbers, *(_difference(row, name) for name in others))


def _difference(row: Row, other: str) -> str:
    """Returns ``=``, or the three differences in bytes: ``+512 +512 0``."""
    less = row.differences.get(other)
    if less is None:
        return _UNKNOWN
    return " ".join(f"{one:+,}" if one else "0" for one in less) if any(less) else _SAME


def _problems(rows: Sequence[Row]) -> list[str]:
    """Returns each reason once, with the workloads that it holds for."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for backend, peaks in row.found.items():
            if peaks.problem:
                reasons.setdefault((backend, peaks.problem), []).append(row.name)
    lines = [
        f"  {backend}: {names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {problem}"
        for (backend, problem), names in reasons.items()
    ]
    return ["", f"{_UNKNOWN} was not measured:", *lines] if lines else []


def summary(rows: Sequence[Row]) -> str:
    """Returns ``70 workloads: 64 equal to the byte, 2 differ, 4 not compared on all backends``."""
    differ = sum(row.differs for row in rows)
    equal = sum(row.compared and not row.differs for row in rows)
    left = len(rows) - differ - equal
    return (
        f"{format_count(len(rows), 'workload')}: {equal} equal to the byte, {differ} differ,"
        f" {left} not compared on all backends"
    )
