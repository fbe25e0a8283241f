"""The table of held tensors: a line for each group of equal tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ..measurement.held import Held
from ..measurement.symbolic_shapes import product
from ..measurement.tensor_groups import ROLES, Group, apart, in_module, line_of
from ..units import format_count, format_size

#: The number of groups to show.
_SHOWN = 10

#: The bytes of a line, the number of its tensors, its cells, and who holds the tensors.
_Row = tuple[int, int, tuple[str, ...], str]


def lines(held: Sequence[Held], moment: str, more: Sequence[Held] = ()) -> list[str]:
    """Returns the tensors held at a ``moment``, the largest groups first, under a title.

    ``more`` are the tensors that a baseline does not have; they come first.
    """
    if not held:
        return []
    new = Counter(more)
    others = []
    for tensor in held:
        if new[tensor]:
            new[tensor] -= 1
        else:
            others.append(tensor)
    if not more:
        return [f"  held at the {moment} ({format_count(len(held), 'tensor')}):", *_listed(held)]
    rest = [
        f"  held at the {moment} besides ({format_count(len(others), 'tensor')}):",
        *_listed(others),
    ]
    title = f"  held at the {moment} and not in the baseline ({format_count(len(more), 'tensor')}):"
    return [title, *_listed(more), *(rest if others else [])]


def _listed(held: Sequence[Held]) -> list[str]:
    rows = sorted(_rows(held), key=lambda row: -row[0])
    shown, rest = rows[:_SHOWN], rows[_SHOWN:]
    table = [cells for _, _, cells, _ in shown if len(cells) > 2]
    columns = range(max(map(len, table), default=0))
    widths = [max(len(cells[column]) for cells in table) for column in columns]
    amount = max((len(cells[0]) for _, _, cells, _ in shown), default=0)
    lines = []
    for _, _, (first, *others), holder in shown:
        padded = [cell.ljust(width) for cell, width in zip(others, widths[1:], strict=False)]
        plain = others if len(others) == 1 else padded
        lines.append(("    " + "  ".join([first.rjust(amount), *plain])).rstrip())
        if holder:
            lines.append(f"    {' ' * amount}  {holder}")
    if rest:
        number = sum(count for _, count, _, _ in rest)
        together = format_size(sum(nbytes for nbytes, _, _, _ in rest))
        lines.append(f"    and {number} more, {together} together")
    return lines


def _rows(held: Sequence[Held]) -> Iterator[_Row]:
    groups, roles = apart(held)
    several = any(group.held.module for group in groups)
    for group in groups:
        yield group.nbytes, group.count, _cells(group, several), group.held_by
    for role, tensors in roles.items():
        nbytes = sum(tensor.nbytes for tensor in tensors)
        text = f"{ROLES[role]}: {format_count(len(tensors), 'tensor')}"
        yield nbytes, len(tensors), (format_size(nbytes), text), ""


def _cells(group: Group, modules: bool) -> tuple[str, ...]:
    held = group.held
    size = format_size(held.nbytes)
    meaning = product(held.dims)
    return (
        f"{group.count} × {size}" if group.count > 1 else size,
        f"{list(held.shape)} {held.dtype}" if held.dtype else "",
        held.op,
        line_of(held),
        f"in {held.function}" if held.function else "",
        *([in_module(held)] if modules else []),
        f"← {meaning}" if meaning else "",
    )
