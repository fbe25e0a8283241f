"""cuDNN's attention on the null device: chosen as on a GPU, its tensors made, its scratch unknown.

PyTorch itself decides when cuDNN attends (``sdp_utils.cpp``), and its meta kernels know what it
returns. How much cuDNN needs meanwhile, only cuDNN on a device can tell; so each call asks for a
handle, as the real one does, which the runtime refuses and counts as ``cudnnCreate``.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

ATTENTION = "_scaled_dot_product_cudnn_attention"
BACKWARD = "_scaled_dot_product_cudnn_attention_backward"
_KEPT = "_attnmem_cudnn"


def stand_in() -> bool:
    """Takes the place of cuDNN's kernels in PyTorch's dispatcher, for the rest of the process.

    Returns ``False`` where an earlier call has done so.
    """
    if hasattr(torch.library, _KEPT):
        return False
    library = torch.library.Library("aten", "IMPL")
    setattr(torch.library, _KEPT, library)  # its kernels live as long as it does
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        warnings.filterwarnings("ignore", ".*[Oo]verriding a previously registered", UserWarning)
        for name in (ATTENTION, BACKWARD):
            kernel = _like(getattr(torch.ops.aten, name).default)
            library.impl(name, kernel, "CUDA")
    return True


def _like(operator: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that makes what the operator returns, as its meta kernel says, and no more."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        device = next(arg.device for arg in args if isinstance(arg, torch.Tensor))
        ctypes.CDLL(None).cudnnCreate(ctypes.byref(ctypes.c_void_p()))
        described = tree_map_only(torch.Tensor, _described, (args, kwargs))
        result = operator(*described[0], **described[1])

        def make(like: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)

        return tree_map_only(torch.Tensor, make, result)

    return kernel


def _described(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
