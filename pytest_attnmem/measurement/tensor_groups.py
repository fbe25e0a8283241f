"""Groups of tensors: equal tensors form a group, and so do all tensors of a role."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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

#: The ways to hold a tensor; a holder without one has the first.
_HOLDING = ("held by ", "saved by ")
#: The most names of holders.
_NAMED = 3

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors that are equal except for numbers in the name of their module."""

    held: Held
    """One of the tensors, with the module of all: ``blocks.*.attention``."""
    count: int
    holders: tuple[str, ...] = ()
    """The holder of each tensor that has one."""

    @property
    def held_by(self) -> str:
        """Returns who holds the tensors: ``2 of 4 held by Cache.k, Cache.v``; empty if unknown."""
        ways: dict[str, list[str]] = {}
        for holder in dict.fromkeys(self.holders):
            way = next((way for way in _HOLDING if holder.startswith(way)), _HOLDING[0])
            ways.setdefault(way, []).append(holder.removeprefix(way))
        text = "; ".join(way + _first(names) for way, names in ways.items())
        some = 0 < len(self.holders) < self.count
        return f"{len(self.holders)} of {self.count} {text}" if some else text

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


def grouped(held: Iterable[Held]) -> list[Group]:
    """Returns groups of equal tensors, the largest first."""
    alike: dict[Held, list[Held]] = {}
    for tensor in held:
        alike.setdefault(replace(tensor, module=general(tensor.module)), []).append(tensor)
    groups = []
    for key, tensors in alike.items():
        one = tensors[0] if len({one.module for one in tensors}) == 1 else key
        holders = tuple(tensor.holder for tensor in tensors if tensor.holder)
        groups.append(Group(one, len(tensors), holders))
    return sorted(groups, key=lambda group: -group.nbytes)


def _first(names: Sequence[str]) -> str:
    others = len(names) - _NAMED
    more = f" and {others} other{'s' * (others > 1)}" if others > 0 else ""
    return ", ".join(names[:_NAMED]) + more


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
