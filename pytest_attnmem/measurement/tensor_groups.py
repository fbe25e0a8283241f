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
    """One of the tensors, with the module of all: ``blocks.*.attention``."""
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


def grouped(held: Iterable[Held]) -> list[Group]:
    """Returns groups of equal tensors, the largest first."""
    alike: dict[Held, list[Held]] = {}
    for tensor in held:
        alike.setdefault(replace(tensor, module=general(tensor.module)), []).append(tensor)
    groups = [
        Group(tensors[0] if len({one.module for one in tensors}) == 1 else key, len(tensors))
        for key, tensors in alike.items()
    ]
    return sorted(groups, key=lambda group: -group.nbytes)


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
