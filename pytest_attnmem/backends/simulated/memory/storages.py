"""The storages of the device, from the operator that makes one until PyTorch frees it.

Reports describe an allocation by the line of the program, the operator and the shape.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ....measurement.held import SAVED, Held
from ....profiles import DeviceProfile
from ....values.notes import Buffer, Random, Slot
from ...autograd_engine import in_backward
from ...tracing.tensor_origin import CallFinder, Calls, Origin, Origins, line_of
from ..generators import RandomState, RealGenerator, owner
from ..philox_offsets import moved_by
from ..pytorch_device.tensors import TensorMaker
from .simulated_device import Device, DeviceBlock

if TYPE_CHECKING:
    import torch

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

    def caller(self, depth: int = 1) -> Line:
        """Returns the lines outside torch and this package, up to the innermost of the project.

        The caller's own frame and those above it, ``depth`` in all, are this package's.
        """
        frame: Any = sys._getframe(depth)
        if self._origins is not None:
            return self._origins.of(frame)
        return self._calls.calls_of(frame)[0]


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


class DeviceStorage:
    """A storage, whose memory is a block of the device that it was made on."""

    __slots__ = (
        *("_forward", "_forget", "block", "dtype", "line", "memory", "nbytes", "nbytes_made"),
        *("op", "pointer", "role", "shape"),
    )

    def __init__(
        self,
        memory: Device,
        forget: Callable[[int], None],
        nbytes: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
    ) -> None:
        self.memory = memory
        self._forget = forget
        self.pointer = 0
        self.block: DeviceBlock | None = None
        self.shape, self.dtype = shape, dtype
        """The sizes and the dtype of the tensor that it was made for."""
        self.nbytes = self.nbytes_made = nbytes
        """The bytes of its first allocation, and by which operator and where it was made."""
        self.op: Any = None
        self.line: Line = ()
        self.role = ""
        """Its role, which may be learned after its allocation."""
        self._forward = not in_backward()

    def held(self) -> Held:
        """Returns the description of its first allocation."""
        origin = _origin(self.line)
        if self.role:
            origin = origin._replace(role=self.role)
        dtype = str(self.dtype).removeprefix("torch.")
        return Held(self.nbytes_made, tuple(self.shape), dtype, _op_name(self.op), *origin)

    def end(self) -> None:
        """Frees the memory: PyTorch has freed the storage.

        One that a backward pass frees, and did not make, was saved for it.
        """
        self._forget(self.pointer)
        if self.block is not None:
            if self._forward and not self.role and in_backward():
                self.role = SAVED
            self.memory.free(self.block)

    def resize(self, nbytes: int, line: Any, op: Any) -> None:
        """Takes a block of another size; the old one is freed after, because data is copied."""
        before, self.nbytes = self.block, nbytes
        self.op, self.line, self.nbytes_made = op, line, nbytes
        self.block = self.memory.allocate(nbytes, self.held)
        if before is not None:
            self.memory.free(before)


class ValuesOfStorages:
    """The slots of a tape by storage, and the states that its operators draw from."""

    def __init__(self, maker: TensorMaker, profile: Callable[[], DeviceProfile]) -> None:
        self.default = RandomState()
        """The state of the device's default generator."""
        self._maker = maker
        self._profile = profile
        self._slots: dict[int, Slot] = {}

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """Returns the slot of a tensor's storage; None if the tensor is on the host."""
        if not self._maker.is_here(tensor):
            return None
        stored = self._maker.stored_in(tensor)
        if stored is None:
            return Slot(Buffer(0))
        slot = self._slots.get(stored.pointer)
        if slot is None:
            slot = self._slots[stored.pointer] = Slot(Buffer(0, "no operator wrote it"))
        return slot

    def forget(self, pointer: int) -> None:
        """Forgets a storage that was freed."""
        self._slots.pop(pointer, None)

    def all(self) -> Iterator[Slot]:
        """Yields each slot."""
        yield from [*self._slots.values()]

    def random(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Random:
        """Returns the state from which an operator draws, and moves its generator on."""
        generators = (arg for arg in args if isinstance(arg, RealGenerator))
        given = owner(kwargs.get("generator") or next(generators, None))
        state = self.default if given is None else getattr(given, "on_device", None)
        if state is None:
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        return state.draw(moved_by(func, args, kwargs, self._profile()))
