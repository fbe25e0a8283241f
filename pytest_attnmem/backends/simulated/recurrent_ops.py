"""Whether cuDNN computes a recurrent network, whose scratch is known on a GPU alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .planned_memory import UnknownScratch

#: The dtypes that cuDNN takes; bfloat16 only of some devices and versions.
_CUDNN_DTYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
BY_CUDNN: Final = (
    "cuDNN's recurrent network takes scratch that is known on a GPU alone; PyTorch's own can be had"
    " with torch.backends.cudnn.flags(enabled=False)"
)


def weight_patches(unknown: UnknownScratch) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Returns a patch of the question by which a network's weights move to one buffer of cuDNN."""
    original: Callable[[Any], bool] = torch.backends.cudnn.is_acceptable

    def is_acceptable(tensor: Any) -> bool:
        if is_for_cudnn(tensor):
            unknown.explain(BY_CUDNN)
            return False
        return original(tensor)

    return {(torch.backends.cudnn, "is_acceptable"): is_acceptable}


def is_for_cudnn(tensor: Any) -> bool:
    """Returns True if cuDNN computes a network on that input (``use_cudnn`` of RNN.cpp)."""
    return bool(
        torch.backends.cudnn.enabled
        and tensor.dtype in _CUDNN_DTYPES
        and tensor.device.type == "cuda"
        and tensor.numel()
    )
