"""The device of tensors that a program makes without a device.

They are on the simulated device until the program names one; then they belong on the host, as in
PyTorch, and a run that put some on the device starts again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from ...errors import AttnMemError, CannotSimulate, MixedDevices, StartAgain
from ...units import shown
from .host_tensors.refusals import OF_ELEMENTS, Refusal
from .program_errors import at

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .outside import Outside


_ON_DEVICE: Final = ", and its tensors were on the device, though it named none"


class Placement:
    """Records if the running program named a device; its fake mode needs to know."""

    def __init__(self, fake_mode: SimulatedFakeMode, note: Callable[[str], CannotSimulate]) -> None:
        self.outside: Outside | None = None
        """The device as the session's programs see it outside windows."""
        self.starts_again = ""
        """The reason why the next window restarts the device; empty if it does not."""
        self.inside = False
        """True while a program runs in the simulation."""
        self._thread = 0
        """The thread that entered it."""
        self._fake_mode = fake_mode
        self._note = note
        self._named = False

    @property
    def may_start_again(self) -> bool:
        """Returns True while tensors are on the device only because the program named none."""
        return self._fake_mode.used_implicit_device and not self._named

    def restart(self, named: bool) -> None:
        """Begins a program; ``named`` if it is known that the program names the device."""
        self.starts_again = ""
        self._named = named
        self._fake_mode.used_implicit_device = False
        self._update()

    def foresee(self) -> None:
        """Takes a program for one that names the device: its code does."""
        self._named = True
        self._update()

    def join(self, outside: Outside) -> None:
        """Takes part in a session whose programs see that device outside windows."""
        self.outside = outside
        self.leave()

    def enter(self) -> None:
        """Enters the simulation: fixtures may have named the device."""
        self.inside, self._thread = True, threading.get_ident()
        self._update()

    def leave(self) -> None:
        """Leaves the simulation."""
        self.inside = False
        self._update()

    def _update(self) -> None:
        outside = self.outside
        self._named |= outside is not None and outside.named
        on_host = outside is not None and not self.inside  # as everywhere in PyTorch
        self._fake_mode.device_named = self._named or on_host

    def device_named(self) -> None:
        """Records that the program names the device.

        Raises:
            StartAgain: tensors without a named device are on the device already.
        """
        if self.outside is not None and not self.inside:
            self.outside.named = True
        elif self.may_start_again:
            self.start_again(f"'cuda' is named{at()}, after tensors were made without a device")
        else:
            self._named = self._fake_mode.device_named = True

    def mixed(self, func: Any, refusal: Refusal = OF_ELEMENTS) -> CannotSimulate | MixedDevices:
        """Returns PyTorch's error for an operator with tensors of the host and of the device.

        If the call allocates memory before it fails, or runs on CUDA, the window is not enforced.

        Raises:
            StartAgain: the one on the device was made without a device, and belongs on the host.
        """
        if self.inside and self.may_start_again:
            self.start_again(f"a tensor made without a device met one of the CPU{at()}")
        if refusal.runs:
            return self._note(f"{func}{at()} {refusal.text}")
        text = f"{refusal.text} ({func}{at()})"
        if refusal.allocates:
            self._note(text)
        return MixedDevices(text)

    def start_again(self, found: str) -> None:
        """Has the program run again, with tensors without a named device on the host.

        A thread of the program goes on until then: others may wait for it.

        Raises:
            StartAgain: in the thread that measures.
        """
        self._belong_on_host(found)
        if threading.get_ident() == self._thread:
            raise StartAgain(found)

    def failed(self, error: Exception) -> None:
        """Has the program run again that ended with an error, if its tensors may be to blame.

        They are on the device because the program named none; on the host, as in PyTorch, it may
        succeed. What is over a limit, or not known here, is not an error of that kind.
        """
        if self.may_start_again and not isinstance(error, (AttnMemError, torch.OutOfMemoryError)):
            self._belong_on_host(f"it ended with {shown(error, 160)}{_ON_DEVICE}")

    def _belong_on_host(self, found: str) -> None:
        self._named = self._fake_mode.device_named = True
        self.starts_again = found
        self._note(f"{found}, and this run cannot start again; name the device of each tensor")
