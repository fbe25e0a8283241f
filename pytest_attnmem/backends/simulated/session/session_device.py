"""The device as a session shows it: to fixtures, at module level, and in tests without a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import torch

from ..patched import Patches, are_set, patched
from .process import ProcessDevice

if TYPE_CHECKING:
    from .simulation import DeviceSimulation


class SessionDevice:
    """The device of a session, in and outside its windows."""

    def __init__(self, simulation: DeviceSimulation, process: ProcessDevice) -> None:
        self._simulation = simulation
        self._process = process
        self._patches = ExitStack()
        self._set: Patches = {}
        self._times_left = 0

    @property
    def named(self) -> bool:
        """Returns True if code outside windows made a tensor of the device, for this test."""
        return self._simulation.made_outside

    @named.setter
    def named(self, value: bool) -> None:
        self._simulation.made_outside = value

    def enter(self) -> None:
        """Shows the device to the process."""
        operators = self._process.operators
        operators.current, operators.is_shown = self._simulation, True
        self._simulation.is_shown = True
        self._simulation.placement.restart()
        self.named = False
        self._patch()

    def exit(self) -> None:
        """Hides the device again."""
        if self._simulation.is_shown:
            self._patches.close()
            self._simulation.is_shown = self._process.operators.is_shown = False

    def settle(self) -> None:
        """Begins a test: what an earlier one put in the place of the device's functions goes."""
        if self._simulation.is_shown and not (self._times_left or are_set(self._set)):
            self._patches.close()
            self._patch()

    def note_values(self, values: Iterable[object]) -> None:
        """Notes that values of fixtures are on the device, where an earlier test moved them."""
        self.named = self.named or any(map(self._is_on_device, values))

    @contextmanager
    def left(self) -> Iterator[None]:
        """Runs the body in PyTorch as it is installed."""
        self._patches.close()
        self._times_left += 1
        try:
            yield
        finally:
            self._times_left -= 1
            if self._simulation.is_shown and not self._times_left:
                self._patch()

    def _patch(self) -> None:
        self._set = self._simulation.patches()
        self._patches.enter_context(patched(self._set))
        self._patches.enter_context(self._process.running())

    def _is_on_device(self, value: object) -> bool:
        """Returns True for a tensor or a module that is on the device, or a list with one."""
        for part in value if isinstance(value, (list, tuple)) else (value,):
            is_module = issubclass(type(part), torch.nn.Module)  # its __class__ may raise
            for tensor in (*part.parameters(), *part.buffers()) if is_module else (part,):
                if issubclass(type(tensor), torch.Tensor) and self._process.maker.is_here(tensor):
                    return True
        return False
