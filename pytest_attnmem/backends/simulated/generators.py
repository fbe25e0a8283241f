"""``torch.Generator`` of a program on a simulated device: of the host, or of the device.

PyTorch's C++ code hands an operator another Python object than the program's, for the same
generator. While that object lives, it is always the same one.
"""

from __future__ import annotations

import struct
from typing import Any, Final
from weakref import WeakValueDictionary

import torch

from ...values.dispatcher import DispatchMode, past_modes
from ...values.notes import Random

#: The bytes of a state (c10's ``CUDAGeneratorImpl``): a seed and an offset.
_LAYOUT: Final = "<Qq"
_SEED: Final = "<Q"
#: The seed of a generator that nobody has seeded (``c10::detail::default_rng_seed_val``).
_DEFAULT_SEED: Final = 67280421310721


class RandomState:
    """The state of a generator; two operators never draw the same numbers."""

    def __init__(self) -> None:
        self.seed, self.offset = _DEFAULT_SEED, 0

    def manual_seed(self, seed: int) -> None:
        """Sets the seed, and starts at the first number."""
        self.seed, self.offset = seed % 2**64, 0

    def draw(self, numbers: int = 4) -> Random:
        """Returns the state for one operator, and moves on by so many numbers."""
        state = Random(self.seed, self.offset)
        self.offset += numbers
        return state

    def get(self) -> torch.Tensor:
        """Returns the state, ``[16]`` uint8 on the host."""
        with torch.DisableTorchFunction(), past_modes():
            packed = struct.pack(_LAYOUT, self.seed, self.offset)
            return torch.tensor(list(packed), dtype=torch.uint8)

    def set(self, state: torch.Tensor) -> None:
        """Restores a state that ``get`` returned, or a seed alone."""
        with torch.DisableTorchFunction():
            packed = bytes(state.tolist())
        if len(packed) == struct.calcsize(_SEED):
            self.manual_seed(struct.unpack(_SEED, packed)[0])
        elif len(packed) == struct.calcsize(_LAYOUT):
            self.seed, self.offset = struct.unpack(_LAYOUT, packed)
        else:
            raise RuntimeError("RNG state is wrong size")


#: PyTorch's own, whatever stands in its place in a window.
RealGenerator: Any = torch.Generator


#: The generators of programs, by the id of the object that operators get in the place of each.
_OWNERS: Final = WeakValueDictionary[int, "SimulatedGenerator"]()


def owner(seen: Any) -> Any:
    """Returns the generator of the program that an operator got; a real one for itself."""
    return _OWNERS.get(id(seen), seen)


class _Reached(DispatchMode):
    """Keeps the generator that an operator gets."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator: Any = None

    def __torch_dispatch__(self, _: Any, __: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.generator = kwargs["generator"]
        return args[0]


def _seen_by_operators(generator: SimulatedGenerator) -> Any:
    with torch.DisableTorchFunction():
        with past_modes():
            number = torch.empty(0)
        with _Reached() as mode:
            number.random_(generator=generator)
    return mode.generator


class _AnyGenerator(type(torch.Generator)):  # type: ignore[misc]
    """Makes the real generators of the host instances of the simulated type."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, RealGenerator)


class SimulatedGenerator(torch.Generator, metaclass=_AnyGenerator):
    """A generator that knows its device."""

    def __new__(cls, device: Any = "cpu") -> SimulatedGenerator:  # noqa: D102
        made: SimulatedGenerator = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        return made

    def __init__(self, device: Any = "cpu") -> None:
        self._device = torch.device(*("cuda", device) if isinstance(device, int) else (device,))
        on_device = self._device.type == "cuda"
        self.on_device: RandomState | None = RandomState() if on_device else None
        """The state on the device; None for a generator of the host."""
        self._seen = _seen_by_operators(self)
        _OWNERS[id(self._seen)] = self

    device = property(lambda self: self._device)

    @property
    def host(self) -> Any:
        """Returns the generator of the host whose numbers it draws, as operators get it."""
        return self._seen

    def manual_seed(self, seed: int) -> SimulatedGenerator:
        """Sets the seed."""
        if self.on_device is None:
            RealGenerator.manual_seed(self.host, seed)
        else:
            self.on_device.manual_seed(seed)
        return self

    def seed(self) -> int:
        """Sets a seed that nobody knows, and returns it."""
        seed: int = RealGenerator.seed(self.host)
        if self.on_device is not None:
            self.on_device.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Returns the last seed."""
        if self.on_device is None:
            return RealGenerator.initial_seed(self.host)  # type: ignore[no-any-return]
        return self.on_device.seed

    def get_state(self) -> torch.Tensor:
        """Returns the state, uint8 on the host."""
        if self.on_device is None:
            return RealGenerator.get_state(self.host)  # type: ignore[no-any-return]
        return self.on_device.get()

    def set_state(self, state: torch.Tensor) -> SimulatedGenerator:
        """Restores a state."""
        if self.on_device is None:
            RealGenerator.set_state(self.host, state)
        else:
            self.on_device.set(state)
        return self

    def clone_state(self) -> SimulatedGenerator:
        """Returns a generator with the same state."""
        made = SimulatedGenerator(self._device).manual_seed(self.initial_seed())
        return made.set_state(self.get_state())

    def graphsafe_get_state(self) -> SimulatedGenerator:
        """Returns a generator that shares the state, on the device."""
        if self.on_device is None:
            return RealGenerator.graphsafe_get_state(self.host)  # type: ignore[no-any-return]
        made = SimulatedGenerator(self._device)
        made.on_device = self.on_device
        return made

    def graphsafe_set_state(self, state: Any) -> SimulatedGenerator:
        """Shares the state of another generator, on the device."""
        if self.on_device is None:
            RealGenerator.graphsafe_set_state(self.host, state)
        else:
            self.on_device = state.on_device
        return self

    def get_offset(self) -> int:
        """Returns the numbers that were drawn since the seed, on the device."""
        if self.on_device is None:
            return RealGenerator.get_offset(self.host)  # type: ignore[no-any-return]
        return self.on_device.offset

    def set_offset(self, offset: int) -> SimulatedGenerator:
        """Goes to a number after the seed, on the device."""
        if self.on_device is None:
            RealGenerator.set_offset(self.host, offset)
        else:
            self.on_device.offset = offset
        return self

    def __reduce__(self) -> Any:
        return SimulatedGenerator, (self._device,), (self.initial_seed(), self.get_state())

    def __setstate__(self, given: Any) -> None:
        seed, state = given
        self.manual_seed(seed).set_state(state)


class DefaultGenerator(SimulatedGenerator):
    """``torch.default_generator`` in a program: it has the numbers of PyTorch's own."""

    def __init__(self, on_device: RandomState | None = None) -> None:
        super().__init__("cpu" if on_device is None else "cuda:0")
        self.on_device = on_device

    @property
    def host(self) -> Any:
        """Returns PyTorch's own generator of the host."""
        return torch.default_generator
