"""DLPack: other libraries read and write the memory of tensors of the host, not of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .fake_tensor import NO_GRADIENT, SimulatedTensor


def patches(
    as_fakes: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> dict[tuple[Any, str], Any]:
    """Returns the patches, by owner and name; ``as_fakes`` finds the simulated tensors."""
    read: Callable[..., Any] = torch.utils.dlpack.from_dlpack

    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
        (tensor,) = as_fakes((ext_tensor,))
        if type(tensor) is not SimulatedTensor:
            return read(tensor, device=device, copy=copy)
        if tensor.requires_grad:
            raise BufferError(NO_GRADIENT)
        made = tensor.detach()
        if device is not None and torch.device(device).type != made.device.type:
            if copy is False:
                raise ValueError(
                    f"cannot move DLPack tensor from device {made.device} to {device} without"
                    " copying. Set copy=None or copy=True."
                )
            return made.to(device)
        return made.clone() if copy else made

    def to_dlpack(tensor: Any) -> Any:
        return tensor.__dlpack__()

    return {
        (owner, function.__name__): function
        for owner in (torch, torch.utils.dlpack)
        for function in (from_dlpack, to_dlpack)
    }
