"""The random numbers of a program: each operator's, from the generator that it draws from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._mode_utils import no_dispatch

from ...values.host_generator import SET_STATE, STATE, HostGenerators
from ...values.notes import Draws, Random, leaves
from .fake_tensor import CPU, IMPLICIT_CUDA, SimulatedTensor
from .generators import DefaultGenerator, SimulatedGenerator, owner
from .philox_offsets import moved_by
from .random_state import RandomState

if TYPE_CHECKING:
    from ...profiles import DeviceProfile
    from ...values.tape import Tape

Make = Callable[[torch.Tensor, torch.device], Any]


class RandomNumbers:
    """The generators of one simulation."""

    def __init__(self, profile: DeviceProfile) -> None:
        self.default = RandomState()
        """The device's default generator."""
        self._profile = profile
        self._host = HostGenerators()
        self._unlike = RandomState()
        """The numbers that are not those of the host's generators: too many wait to be drawn."""
        self._first: dict[int, tuple[RandomState, int, int]] = {}
        self._tape: Tape | None = None  # while a program runs

    def draw(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Random | Draws:
        """Returns the state from which an operator draws, and moves its generator on."""
        given = owner(kwargs.get("generator") or next(filter(_is_generator, args), None))
        device = _device_of(args, kwargs)
        if given is not None and device is not IMPLICIT_CUDA and given.device.type != device.type:
            raise RuntimeError(
                f"Expected a '{device.type}' device type for generator but found"
                f" '{given.device.type}'"
            )
        state = self.default if given is None else getattr(given, "on_device", None)
        if device.type == "cpu" or state is None:
            with no_dispatch():
                draws = self._host.draws(_host_generator(given))
            draws.at_once = self._tape is None
            return self._unlike.draw() if draws.too_many else draws
        self._first.setdefault(id(state), (state, state.seed, state.offset))
        return state.draw(moved_by(func, args, kwargs, self._profile))

    def enter(self, tape: Tape, make: Make) -> dict[tuple[Any, str], Any]:
        """Begins a program; returns the replacements in PyTorch, by owner and name.

        The states of the host's generators are noted on the tape; ``make`` makes a fake.
        """
        self._first.clear()
        self._tape, default = tape, DefaultGenerator()

        def get_state(generator: Any = default) -> torch.Tensor:
            if generator.on_device is not None:
                return generator.on_device.get()  # type: ignore[no-any-return]
            return self._host_state(generator.host, tape, make)

        def set_state(generator: Any, state: torch.Tensor) -> Any:
            if generator.on_device is not None:
                generator.on_device.set(state)
                return generator
            with torch._C.DisableTorchFunction(), no_dispatch():
                if type(state) is SimulatedTensor:
                    named = {"generator": generator.host}
                    tape.end(tape.begin(SET_STATE, (state,), named), None)
                else:
                    torch._C.Generator.set_state(generator.host, state)
            return generator

        def set_default(new_state: torch.Tensor) -> None:
            set_state(default, new_state)

        modules = (torch, torch.random)
        return {
            **{(owner, "get_rng_state"): lambda: get_state(default) for owner in modules},
            **{(owner, "set_rng_state"): set_default for owner in modules},
            (torch, "default_generator"): default,
            (SimulatedGenerator, "get_state"): get_state,
            (SimulatedGenerator, "set_state"): set_state,
        }

    def _host_state(self, generator: torch.Generator, tape: Tape, make: Make) -> torch.Tensor:
        """Returns the state of a generator of the host, uint8 on the host.

        It is a simulated tensor if operators whose numbers nobody has read come before.
        """
        with torch._C.DisableTorchFunction(), no_dispatch():
            draws = self._host.draws(generator)
            if draws.too_many:
                return torch._C.Generator.get_state(generator)
            if draws.pending is None:
                return draws.state.clone()
            state = make(torch.empty_like(draws.state, device="meta"), CPU)
            tape.end(tape.begin(STATE, (), {"generator": generator}), state)
            return state  # type: ignore[no-any-return]

    def leave(self, *, starts_again: bool) -> None:
        """Ends a program; one that starts again finds each generator as it was."""
        for state, seed, offset in self._first.values() if starts_again else ():
            state.seed, state.offset = seed, offset
        self._first.clear()
        if self._tape is not None:
            self._host.leave(self._tape.replay.run, starts_again=starts_again)
        self._tape = None

    def settle(self, tape: Tape) -> None:
        """Has the generators of the host continue after what was drawn outside a program."""
        if self._tape is None:
            self._host.leave(tape.replay.run, starts_again=False)


def _is_generator(arg: Any) -> bool:
    return isinstance(arg, torch._C.Generator)


def _host_generator(given: Any) -> Any:
    """Returns PyTorch's own generator; None stands for the default one."""
    return torch._C.default_generator if given is None else getattr(given, "host", given)


def _device_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.device:
    """Returns the device of an operator's output."""
    device: torch.device | None = kwargs.get("device")
    if device is not None:
        return device
    tensors = (leaf for leaf in leaves(args) if type(leaf) is SimulatedTensor)
    return next((tensor._fake_device for tensor in tensors), CPU)
