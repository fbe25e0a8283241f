"""The difference between the results of two sessions, by test, term and line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..errors import AttnMemError
from ..report import held_changes
from ..report.json import load
from ..report.record import Record
from ..report.session_diff import is_measured
from ..units import format_distinct, printable

#: The most tensors of one test.
_TENSORS: Final = 8


class _Changed(NamedTuple):
    old: Record
    new: Record

    @property
    def delta(self) -> int:
        return (self.new.value or 0) - (self.old.value or 0)

    @property
    def tensors(self) -> list[held_changes.HeldChange]:
        return held_changes.held_changes(self.old.held, self.new.held)


def diff(old: Path, new: Path) -> tuple[list[str], dict[str, Any]]:
    """Returns the lines to print, and the same as JSON values.

    Raises:
        AttnMemError: a file cannot be read, or the two have no result in common.
    """
    before, after = ({_key(row): row for row in load(path)[0]} for path in (old, new))
    shared = [
        _Changed(before[key], after[key])
        for key in after
        if key in before and is_measured(before[key]) and is_measured(after[key])
    ]
    if not shared:
        raise AttnMemError(
            f"{old} and {new} have no result in common: no test was measured on the same device in"
            " both"
        )
    changed = sorted((one for one in shared if one.delta), key=lambda one: -one.delta)
    return [*_lines(changed, len(shared))], {"results": [_to_dict(one) for one in changed]}


def _key(row: Record) -> tuple[str, str, str, str]:
    return row.nodeid, row.region, row.metric, row.place


def _lines(changed: list[_Changed], count: int) -> Iterator[str]:
    grew = sum(one.delta > 0 for one in changed)
    yield (
        f"{grew} of {count} result{'' if count == 1 else 's'} grew,"
        f" {len(changed) - grew} shrank, {count - len(changed)} unchanged"
    )
    for one in changed:
        sizes = format_distinct(one.old.value or 0, one.new.value or 0)
        metric = "" if one.new.metric == "peak" else f" ({one.new.metric})"
        yield ""
        yield f"{printable(one.new.name)}{metric}"
        yield f"  {' → '.join(sizes)} ({one.delta:+,} B) on {one.new.place}"
        if tensors := one.tensors:
            yield "  at the peak:"
            yield from (f"    {line}" for line in held_changes.lines(tensors, _TENSORS))
        else:
            yield "  its tensors are not listed; measure both with --attnmem-explain all"


def _to_dict(one: _Changed) -> dict[str, Any]:
    return {
        **{name: getattr(one.new, name) for name in ("nodeid", "region", "metric")},
        "place": one.new.place,
        "old_bytes": one.old.value,
        "new_bytes": one.new.value,
        "tensors": [
            {"term": held_changes.term(change), **held_changes.to_dict(change)}
            for change in one.tensors
        ],
    }
