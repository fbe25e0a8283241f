"""The tensors of a row as lines: a line for each group of equal tensors, and for each role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..measurement.held import Held
from ..measurement.tensor_groups import ROLES, apart, in_module


@dataclass(frozen=True, slots=True)
class HeldLine:
    """Equal tensors of all layers, or all tensors of a role."""

    held: Held
    """One of the tensors; of a role, their sum."""
    count: int
    """The number of times that ``held`` is there."""
    tensors: int
    """The number of tensors."""
    module: str
    """``saved by blocks.*.mlp``; empty: none or unknown."""

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all tensors of the line."""
        return self.held.nbytes * self.count


def held_lines(held: Iterable[Held]) -> list[HeldLine]:
    """Returns the lines, the largest first."""
    groups, roles = apart(held)
    lines = [HeldLine(one.held, one.count, one.count, in_module(one.held)) for one in groups]
    for role, tensors in roles.items():
        count = len(tensors)
        name = f"{ROLES[role]}: {count} tensor{'' if count == 1 else 's'}"
        whole = Held(sum(tensor.nbytes for tensor in tensors), (), "", name, "")
        lines.append(HeldLine(whole, 1, count, ""))
    return sorted(lines, key=lambda line: -line.nbytes)
