"""Groups of tensors: equal tensors form a group, and so do all tensors of a role."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from .held import BACKWARD, SAVED, Held

#: The name of the group of a role.
ROLES = MappingProxyType(
    {
        "parameter": "parameters",
        "gradient": "gradients of parameters",
        "optimizer": "made by the optimizer",
    }
)

_WAYS = MappingProxyType({SAVED: "saved by ", BACKWARD: "backward of "})

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors that are equal except for numbers in the name of their module."""

    held: Held
    """One of the tensors, with the module of all: ``blocks.*.attention``, and with all holders."""
    count: int

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all tensors of the group."""
        return self.held.nbytes * self.count


def general(module: str) -> str:
    """Returns the module without the numbers of its layers: ``blocks.*.attention``."""
    return _NUMBER.sub("*", module)


def in_module(held: Held) -> str:
    """Returns the tensor's module, and in which way it is one of it: ``saved by blocks.2.mlp``."""
    if not held.module:
        return "saved for backward" if held.role == SAVED else ""
    return f"{_WAYS.get(held.role, '')}{held.module}"


def line_of(held: Held) -> str:
    """Returns the line that made a tensor: ``attn.py:41, by einops/_backends.py:291``."""
    return f"{held.where}, by {held.by}" if held.by else held.where


def held_by(held: Held) -> str:
    """Returns who holds a tensor, in words: ``held by Loop.outputs[3]``; empty if nobody knows."""
    known = held.holder.startswith(("saved by ", "held by "))
    return held.holder if known or not held.holder else f"held by {held.holder}"


def grouped(held: Iterable[Held]) -> list[Group]:
    """Returns groups of equal tensors, the largest first."""
    alike: dict[Held, list[Held]] = {}
    for tensor in held:
        alike.setdefault(replace(tensor, module=general(tensor.module)), []).append(tensor)
    groups = []
    for key, tensors in alike.items():
        one = tensors[0] if len({one.module for one in tensors}) == 1 else key
        groups.append(Group(replace(one, holder=_together(tensors)), len(tensors)))
    return sorted(groups, key=lambda group: -group.nbytes)


def _together(tensors: Iterable[Held]) -> str:
    """Returns the holders of the tensors: the first, and the number of others."""
    holders = [*dict.fromkeys(one.holder for one in tensors if one.holder)]
    others = len(holders) - 1
    more = f" and {others} other{'s' * (others > 1)}" if others > 0 else ""
    return "".join(holders[:1]) + more


def apart(held: Iterable[Held]) -> tuple[list[Group], dict[str, list[Held]]]:
    """Returns the groups of tensors without a role, and the others by role."""
    roles: dict[str, list[Held]] = {}
    others = []
    for tensor in held:
        if tensor.role in ROLES:
            roles.setdefault(tensor.role, []).append(tensor)
        else:
            others.append(tensor)
    return grouped(others), roles
