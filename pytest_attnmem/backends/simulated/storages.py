"""The storages of the device, from the operator that makes one until PyTorch frees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ...profiles import DeviceProfile
from ...values.notes import Buffer, Draws, Random, Slot
from .allocation_lines import AllocatedStorage
from .generators import RandomState, owner
from .philox_offsets import moved_by
from .pytorch_device.tensors import TensorMaker
from .simulated_device import Device

if TYPE_CHECKING:
    from .operators import Operators

_storage: Any = torch.UntypedStorage
_base: Any = torch._C.StorageBase
_resized = "its storage got another size without an operator"


def storage_methods(operators: Operators) -> dict[tuple[Any, str], Any]:
    """Returns the methods by owner and name."""
    maker = operators.maker

    def stored(storage: Any) -> DeviceStorage | None:
        found = maker.stored_at(storage.data_ptr()) if storage.device == maker.device else None
        return found if isinstance(found, DeviceStorage) else None

    def resize_(storage: Any, size: int) -> Any:
        found = stored(storage)
        if found is None:
            return _resize(storage, size)
        if size != found.nbytes:
            running = operators.current
            running.resize("resize_", found, size)
            whole = torch.empty(0, dtype=torch.uint8, device=maker.device).set_(storage)
            running.tape.lose(whole, _resized)
        return storage

    def nbytes(storage: Any) -> int:
        found = stored(storage)
        return _nbytes(storage) if found is None else found.nbytes

    _resize: Callable[[Any, int], Any] = _storage.resize_
    _nbytes: Callable[[Any], int] = _storage.nbytes
    return {
        (_storage, "__new__"): _new_on(maker.device),
        (_storage, "resize_"): resize_,
        **dict.fromkeys(((_storage, "nbytes"), (_storage, "size")), nbytes),
    }


def _new_on(own: torch.device) -> Any:
    """Returns what makes a storage: of a number of bytes, or of a list of them."""

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != own.type:
            return _base.__new__(cls, *args, device=device, **kwargs)
        if args and not isinstance(args[0], int):
            return torch.tensor(args[0], dtype=torch.uint8, device=device).untyped_storage()
        return torch.empty(*args[:1] or (0,), dtype=torch.uint8, device=device).untyped_storage()

    return staticmethod(new)


class DeviceStorage(AllocatedStorage):
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
        self.describe_new(nbytes, shape, dtype)

    def end(self) -> None:
        """Frees the memory: PyTorch has freed the storage."""
        self._forget(self.pointer)
        if self.block is not None:
            self.learn_end()
            self.memory.free(self.block)

    def resize(self, nbytes: int, line: Any, op: Any) -> None:
        """Takes a block of another size; the old one is freed after, because data is copied."""
        before, self.nbytes = self.block, nbytes
        self.op, self.line, self.nbytes_made = op, line, nbytes
        self.block = self.memory.allocate(nbytes, self.held)
        if before is not None:
            self.memory.free(before)


class Profiled(Protocol):
    """The simulation that runs."""

    profile: DeviceProfile


class RunsOperators(Protocol):
    """What knows the simulation that runs."""

    @property
    def current(self) -> Profiled:
        """Returns it."""


class ValuesOfStorages:
    """The slots of a tape by storage, and the states that its operators draw from."""

    def __init__(self, maker: TensorMaker, operators: RunsOperators) -> None:
        self.default = RandomState()
        """The state of the device's default generator."""
        self._maker = maker
        self._operators = operators
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

    def random(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Random | Draws:
        """Returns the state from which an operator draws, and moves its generator on."""
        given = owner(kwargs.get("generator") or next(filter(_is_generator, args), None))
        state = self.default if given is None else getattr(given, "on_device", None)
        if state is None:
            raise RuntimeError(
                f"Expected a '{self._maker.key.type}' device type for generator but found 'cpu'"
            )
        return state.draw(moved_by(func, args, kwargs, self._operators.current.profile))


def _is_generator(arg: Any) -> bool:
    return isinstance(arg, torch._C.Generator)
