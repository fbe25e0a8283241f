"""Descriptions of allocations: the line of the program, the operator and the shape."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Protocol

from ...measurement.held import SAVED, Held
from ..tracing.node_modules import in_backward
from ..tracing.tensor_origin import CallFinder, Calls, Origin, Origins, line_of
from .simulated_device import DeviceBlock

#: Where an operator was called: an origin, or what it is found from.
Line = Origin | Calls


class LineFinder:
    """A finder of the program's current line."""

    def __init__(self) -> None:
        self._calls = CallFinder()
        self._origins: Origins | None = None

    def trace(self, origins: Origins | None) -> None:
        """Searches for modules and optimizers too, which takes time, or no longer."""
        self._origins = origins

    def note(self) -> None:
        """Notes the node of autograd's graph for the running operator, in a traced run."""
        if self._origins is not None:
            self._origins.note(sys._getframe(1))

    def caller(self, depth: int = 1) -> Line:
        """Returns the lines outside torch and this package, up to the innermost of the project.

        The caller's own frame and those above it, ``depth`` in all, are this package's.
        """
        frame: Any = sys._getframe(depth)
        if self._origins is not None:
            return self._origins.of(frame)
        return self._calls.of(frame)[0]


class Role(Protocol):
    """The role of a storage, which may be learned after its allocation."""

    role: str


class AllocatedStorage:
    """What is known of a storage of the device, for the reports of a window."""

    __slots__ = tuple[str, ...]()  # those of a subclass
    nbytes: int
    shape: tuple[int, ...]
    """The sizes and the dtype of the tensor that it was made for."""
    dtype: Any
    nbytes_made: int
    """The bytes of its first allocation, and by which operator and where it was made."""
    op: Any
    line: Line
    block: DeviceBlock | None
    role: str
    """Its role, which may be learned after its allocation."""
    _forward: bool

    def describe_new(self, nbytes: int, shape: tuple[int, ...], dtype: Any) -> None:
        """Sets what is known of a new storage."""
        self.nbytes = self.nbytes_made = nbytes
        self.shape, self.dtype = shape, dtype
        self.op, self.line, self.block, self.role = None, (), None, ""
        self._forward = not in_backward()

    def held(self) -> Held:
        """Returns the description of its first allocation."""
        return tensor_held(self.nbytes_made, self.shape, self.dtype, self.op, self.line, self)

    def learn_end(self) -> None:
        """Learns that a backward pass frees a storage that it did not make: it was saved for it."""
        if self._forward and not self.role and in_backward():
            self.role = SAVED


def tensor_held(
    nbytes: int, shape: Iterable[int], dtype: Any, op: Any, line: Line, role: Role | None = None
) -> Held:
    """Returns the description of a tensor, with the role learned for it so far."""
    origin = _origin(line)
    if role is not None and role.role:
        origin = origin._replace(role=role.role)
    return Held(nbytes, tuple(shape), str(dtype).removeprefix("torch."), _op_name(op), *origin)


def scratch_held(nbytes: int, op: Any, line: Line) -> Held:
    """Returns the description of an operator's scratch."""
    return Held.of_scratch(nbytes, _op_name(op), *_origin(line))


def workspace_held(library: str, line: Line, nbytes: int) -> Held:
    """Returns the description of a library's workspace."""
    return Held.of_workspace(nbytes, library, *_origin(line))


def _op_name(op: Any) -> str:
    return op if isinstance(op, str) else op.overloadpacket.__name__.strip("_")


def _origin(line: Line) -> Origin:
    if isinstance(line, Origin):
        return line
    found = line_of(line)
    return Origin(found.where, found.function, by=found.by)
