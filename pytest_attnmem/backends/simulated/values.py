"""The values of simulated tensors: noted on a tape, and computed when the program reads one."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map_only

from ...errors import CannotCompute, UnknownValue
from ...measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ...values.call import Call
from ...values.compute import compute
from ...values.notes import Buffer, Note, Slot, leaves
from ...values.tape import Tape
from .fake_tensor import SimulatedTensor
from .random_numbers import RandomNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...profiles import DeviceProfile
    from .observer import Observer

_FROM_OUTSIDE = "it was made where no operator is followed"
#: The floating-point operations that a test may cost for what later tests read of its fixtures.
_WORK_OF_A_TEST: Final = 10**7
_CLONE = torch.ops.aten.clone.default
_NONZERO = torch.ops.aten.nonzero.default


class _Watched(weakref.ref[Any]):
    """A storage that lives, and its slot."""

    __slots__ = ("key", "slot")
    key: int
    slot: Slot


class SimulatedStorages:
    """The slots of storages, of the device and of the host, for as long as the storages live."""

    def __init__(self, profile: DeviceProfile) -> None:
        self.numbers = RandomNumbers(profile)
        self.random = self.numbers.draw
        self._watched: dict[int, _Watched] = {}
        self._addressed: dict[int, list[torch.Tensor]] = {}
        self._outside = Buffer(0, _FROM_OUTSIDE)

    def slot_of(self, storage: torch.UntypedStorage) -> Slot | None:
        """Returns the slot of a storage; None if no operator has used it."""
        found = self._watched.get(storage._cdata)
        return None if found is None else found.slot

    def keep(self, storage: torch.UntypedStorage, contents: torch.Tensor) -> None:
        """Keeps memory alive as long as the storage: the program has its address."""
        kept = self._addressed.setdefault(storage._cdata, [])
        if not any(one is contents for one in kept):
            kept.append(contents)

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """Returns the slot of a simulated tensor's storage; None for another tensor."""
        if type(tensor) is not SimulatedTensor:
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        found = self._watched.get(key)
        if found is not None:
            return found.slot
        self._watched[key] = found = _Watched(storage, self._forget)
        found.key, found.slot = key, (slot := Slot(self._outside))
        constant = tensor.__dict__.get("constant")
        if constant is not None and not constant.is_meta:
            with no_dispatch():  # PyTorch writes into the constant itself
                adopt(slot, constant.clone())
        return slot

    def all(self) -> Iterator[Slot]:
        """Yields each slot."""
        for found in [*self._watched.values()]:
            yield found.slot

    def _forget(self, freed: _Watched) -> None:
        self._watched.pop(freed.key, None)
        if self._addressed:
            self._addressed.pop(freed.key, None)


class Values:
    """The tape of one simulation, and the answers to reads."""

    def __init__(
        self,
        make: Callable[[torch.Tensor, torch.device], Any],
        observer: Observer,
        profile: DeviceProfile,
    ) -> None:
        self.storages = SimulatedStorages(profile)
        self.tape = Tape(self.storages, parse_values_limit(VALUES_LIMIT))
        self._make = make
        self._observer = observer

    def adopt(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Gives a fake the values of the real tensor that it stands for."""
        slot = self.storages.find(fake)
        if slot is not None and type(real) is not SimulatedTensor and real.device.type == "cpu":
            adopt(slot, real)

    def take(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Gives a fake the values that a tensor of the host has now; it may change later."""
        if type(real) is not SimulatedTensor and real.device.type == "cpu":
            self.tape.end(self.tape.begin(_CLONE, (real,), {}), fake)

    def limit(self, operations: int) -> None:
        """Limits the floating-point operations of one read."""
        self.tape.replay.limit = operations

    def written(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Returns what a program wrote into a tensor from outside; None if that takes much work.

        It is None too if the program wrote nothing into it.
        """
        slot = self.storages.find(tensor)
        return None if slot is None or slot.writer is None else self.affordable(tensor)

    def affordable(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Returns the values of a tensor; None if nobody knows them, or they take much work."""
        try:
            return self.value(tensor, _WORK_OF_A_TEST)
        except (UnknownValue, CannotCompute):
            return None

    def writer(self, tensor: torch.Tensor) -> Note | None:
        """Returns the note that wrote a tensor's memory last; None if no operator did."""
        slot = self.storages.find(tensor)
        return None if slot is None else slot.writer

    def lose(self, tensors: Iterable[Any], reason: str) -> None:
        """Makes the values of tensors unknown; other arguments are left alone."""
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor):
                self.tape.lose(tensor, reason)

    def value(self, tensor: torch.Tensor, at_most: int | None = None) -> torch.Tensor:
        """Returns the values of a simulated tensor as a tensor of the host.

        Raises:
            UnknownValue: nobody can know them, or they take more floating-point operations than
                the limit, or than ``at_most``.
        """
        replay = self.tape.replay
        limit, replay.limit = replay.limit, min(replay.limit, at_most or replay.limit)
        try:
            with torch._C.DisableTorchFunction(), no_dispatch():
                return self._value(tensor)
        finally:
            replay.limit = limit

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        if assumption := self.tape.assumption(tensor):
            self._observer.assumed(assumption)
        return self.tape.value(tensor)

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Begins a program; returns the replacements of generators, by owner and name."""
        return self.storages.numbers.enter(self.tape, self._make)

    def host_address(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the address of memory with the values of a storage; None for an unknown storage.

        Raises:
            UnknownValue: nobody can know the values.
        """
        slot = self.storages.slot_of(storage)
        if slot is None:
            return None
        with torch._C.DisableTorchFunction(), no_dispatch():
            contents = self.tape.give_away(slot).on_host()
            self.storages.keep(storage, contents)
            return contents.data_ptr()

    def of_array(self, real: torch.Tensor, device: torch.device) -> Any:
        """Returns a tensor in the memory of an array, as ``torch.from_numpy`` does."""
        with torch._C.DisableTorchFunction(), no_dispatch():
            elem = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device="meta")
            made = self._make(elem, device)
            self.adopt(made, real)
            return made

    def give_away(self, tensor: torch.Tensor) -> None:
        """Lets code that no operator follows write the memory of a tensor.

        Raises:
            UnknownValue: nobody can know the values.
        """
        slot = self.storages.find(tensor)
        if slot is not None:
            with torch._C.DisableTorchFunction(), no_dispatch():
                self.tape.give_away(slot)
                self.forget_constant(tensor)

    def forget_constants(self, args: Iterable[Any]) -> None:
        """Does so for the tensors of an operator whose result shares memory."""
        for arg in args:
            if type(arg) is SimulatedTensor:
                self.forget_constant(arg)

    def forget_constant(self, tensor: torch.Tensor) -> None:
        """Has the tape alone know a number, which others may write or share from now on."""
        attributes = tensor.__dict__
        if attributes["constant"] is not None and self.storages.find(tensor) is not None:
            known = attributes["fake_mode"].fake_tensor_converter
            known.invalidate_constant_aliases(attributes["constant"])

    def end(self, call: Call, out: Any) -> None:
        """Notes the results of an operator; runs it at once if it writes what was given away."""
        self.tape.end(call, out)
        if call.exposed:
            self._write_out(call)

    def _write_out(self, call: Call) -> None:
        """Runs an operator at once that writes memory which was given away.

        Raises:
            CannotSimulate: nobody can know what it writes.
        """
        try:
            with torch._C.DisableTorchFunction(), no_dispatch():
                self.tape.write_out(call)
                self.storages.numbers.settle(self.tape)
        except UnknownValue as error:
            raise self._observer.no_data_error(why=str(error)) from None

    def result(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the result of an operator whose sizes or numbers depend on values.

        Raises:
            CannotSimulate: nobody can know the values, or the host cannot compute the operator.
        """
        device = next(leaf._fake_device for leaf in leaves(args) if type(leaf) is SimulatedTensor)
        try:
            with torch._C.DisableTorchFunction(), no_dispatch():
                known = tree_map_only(SimulatedTensor, self._value, args)
                computed = compute(func, known, kwargs)
                return tree_map_only(
                    torch.Tensor, lambda real: self._fake(func, real, device), computed
                )
        except (CannotCompute, UnknownValue) as error:
            raise self._observer.no_data_error(why=str(error)) from None

    def _fake(self, func: Any, real: torch.Tensor, device: torch.device) -> Any:
        """Returns a fake of the same shape, laid out as CUDA's kernel does."""
        stride = (1, max(real.shape[0], 1)) if func is _NONZERO else real.stride()
        elem = torch.empty_strided(real.shape, stride, dtype=real.dtype, device="meta")
        return self._make(elem, device)


def adopt(slot: Slot, real: torch.Tensor) -> None:
    """Makes a slot share the memory of a real tensor: of an array for good, else until a write."""
    with no_dispatch():
        storage = real.untyped_storage()
        slot.buffer, slot.writer = Buffer(storage.nbytes()), None
        slot.buffer.contents = torch.empty(0, dtype=torch.uint8).set_(storage)
        # A weight that is read from a file looks the same; nobody writes it past PyTorch.
        slot.buffer.given_away = is_of_array(real) and not isinstance(real, torch.nn.Parameter)
        slot.buffer.shared = not slot.buffer.given_away


def is_of_array(tensor: torch.Tensor) -> bool:
    """Returns True for a tensor in memory that is not PyTorch's, such as that of an array.

    The memory of a file is not resizable either, but no program writes it past PyTorch.
    """
    if type(tensor) is SimulatedTensor:
        return False
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided or not tensor.is_cpu:
            return False
        storage = tensor.untyped_storage()
        return storage.is_shared() or not (storage.resizable() or storage.filename)
