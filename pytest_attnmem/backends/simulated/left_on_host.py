"""Tensors that a program without a device leaves alive: in a cache, a global or an optimizer.

The program ran on the device because it named none. For the next tests of the session they are what
they are in PyTorch, tensors of the host with values.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._mode_utils import no_dispatch

from .fake_tensor import CUDA, SimulatedTensor

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .values import Values


def leave_on_host(mode: SimulatedFakeMode, values: Values) -> None:
    """Makes the tensors of that mode that nobody put on the device tensors of the host.

    A tensor stays as it is if it has a history, or if its values are unknown or take much work.
    """
    for tensor in [each for each in gc.get_objects() if type(each) is SimulatedTensor]:
        own = vars(tensor)
        if own.get("fake_mode") is not mode or own["_fake_device"] is CUDA:
            continue
        if tensor.is_leaf:
            _become_real(tensor, values)


def _become_real(tensor: Any, values: Values) -> None:
    with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad():
        known = values.affordable(tensor)
        if known is None:
            return
        real = known.clone()
        real.requires_grad_(tensor.requires_grad)
        parameter, gradient = getattr(tensor, "_is_param", False), tensor.grad
        tensor.grad = None
        try:
            torch._C._swap_tensor_impl(tensor, real)
        except RuntimeError:  # C++ code holds it too
            tensor.grad = gradient
            return
        vars(tensor).clear()
        tensor.__class__ = torch.nn.Parameter if parameter else torch.Tensor
        if gradient is not None:
            _become_real(gradient, values)
            tensor.grad = gradient
