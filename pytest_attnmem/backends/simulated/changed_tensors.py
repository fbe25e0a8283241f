"""What a program changes of tensors from outside, and what later programs of a session find.

A program changes the fakes alone. In a session, a tensor of a fixture becomes what the test made of
it before the next test begins: it is on the device, has another dtype, or a gradient. On the host,
its values are written, unless they take much work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

import torch

from .fake_tensor import CUDA, SimulatedTensor
from .move_in_place import become
from .program_errors import at
from .refused_subclasses import PLAIN

if TYPE_CHECKING:
    from .values import Values


def set_data(fake: Any, other: Any) -> None:
    """Gives a tensor the storage of another, which may be on the other device."""
    if not issubclass(kind := type(other), torch.Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {kind.__name__}")
    if other is fake:
        return
    if fake.is_cuda and other.is_cpu:  # C++ code sees the two on other devices
        become(fake, other, _left_behind)
        return
    with torch._C.DisableTorchFunction(), torch.no_grad():
        fake.data = other.detach()
        fake.fake_device = other.fake_device


def _left_behind(gradient: Any) -> NoReturn:
    raise gradient.fake_mode.observer.refused(
        f"the data of a tensor moves to the host{at()} without its gradient, which cannot be"
        " simulated; set the gradient to None first, or move the module"
    )


def settle(real: Any, fake: Any, values: Values) -> None:
    """Makes a tensor from outside what the program made of it."""
    if type(real) not in PLAIN or not (real.is_leaf and fake.is_leaf):
        return
    gradient, required = fake.grad, fake.requires_grad
    if fake._fake_device is CUDA:
        real.grad = None
        become(real, fake, lambda gradient: gradient)
        real.grad = gradient
    else:
        if gradient is None or fake.dtype != real.dtype:
            real.grad = None
        if fake.dtype != real.dtype and fake.shape == real.shape:
            real.data = real.data.to(fake.dtype)
        if not real.is_inference() and (written := values.written(fake)) is not None:
            _write(real, written)
        if gradient is not None and fake.dtype == real.dtype:
            if real.grad is None:
                real.grad = torch.zeros_like(real)
            if (written := values.written(gradient)) is not None:
                _write(real.grad, written)
    real.requires_grad_(required)


def _write(real: torch.Tensor, written: torch.Tensor) -> None:
    if (real.shape, real.dtype) == (written.shape, written.dtype):
        with torch.no_grad():
            real.copy_(written)


class MovedBuffers:
    """The buffers of modules from outside that have a simulated tensor in their place."""

    def __init__(self, values: Values, in_session: Callable[[], bool]) -> None:
        self._values = values
        self._in_session = in_session
        self._moved: list[tuple[ref[Any], str, torch.Tensor]] = []

    def note(self, module: Any, name: str, buffer: torch.Tensor) -> None:
        """Notes that a simulated tensor takes the place of a buffer."""
        self._moved.append((ref(module), name, buffer))

    def leave(self) -> None:
        """Ends a window; outside a session, nobody may see a simulated tensor after it."""
        if not self._in_session():
            self.put_back(settled=False)

    def put_back(self, *, settled: bool) -> None:
        """Puts the buffers back; where ``settled``, they are what the program made of them."""
        for owner, name, buffer in self._moved:
            buffers = getattr(owner(), "_buffers", {})
            moved = dict(buffers.items()).get(name)  # a script's buffers are no dict
            if type(moved) is not SimulatedTensor or (settled and moved._fake_device is CUDA):
                continue
            buffers[name] = buffer.to(moved.dtype) if settled else buffer
            if settled and (written := self._values.written(moved)) is not None:
                _write(buffers[name], written)
        self._moved.clear()
