"""Makes simulated tensors from tensors on ``meta``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from .fake_tensor import CPU, SimulatedTensor

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

_in_inference_mode = torch.is_inference_mode_enabled
_make_subclass = torch.Tensor._make_subclass
_set_throw_on_mutable_data_ptr = torch._C._set_throw_on_mutable_data_ptr


class FakeMaker:
    """Makes the simulated tensors of one fake mode, as ``FakeTensor.__new__`` does."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode
        with torch._C.DisableTorchFunction(), no_dispatch():
            fake = FakeTensor(fake_mode, torch.empty(0, device="meta"), CPU)
        self._attributes = {"fake_mode": fake_mode, "_fake_device": CPU, "constant": None}
        for name, value in vars(fake).items() - self._attributes.items():
            setattr(SimulatedTensor, name, value)  # of the class: 20 more of each tensor take long

    def make(self, elem: torch.Tensor, device: torch.device) -> Any:
        """Returns a tensor on ``device`` with the sizes, strides and storage of ``elem``."""
        if _in_inference_mode() and not elem.is_inference():  # a view of a tensor from outside it
            with torch.inference_mode(False):
                return self.make(elem, device)
        tensor: Any = _make_subclass(
            SimulatedTensor,
            elem,
            dispatch_device=device.type != "cuda",  # C++ code sees CUDA's on ``meta``, as they are
            device_for_backend_keys=device,
        )
        _set_throw_on_mutable_data_ptr(tensor)
        attributes = tensor.__dict__
        attributes.update(self._attributes)
        attributes["_fake_device"] = device
        return tensor
