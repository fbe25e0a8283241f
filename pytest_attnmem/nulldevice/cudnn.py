"""cuDNN's attention on the null device: selected as on a GPU, with outputs but unknown scratch.

PyTorch selects cuDNN's attention (``sdp_utils.cpp``), and PyTorch's meta kernels know its outputs.
Only cuDNN on a device knows its scratch. So each call asks for a handle, as the real kernel does,
and the runtime refuses the handle and counts the call as ``cudnnCreate``.
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
    """Replaces cuDNN's kernels in PyTorch's dispatcher, for the rest of the process.

    Returns False if an earlier call did so.
    """
    if hasattr(torch.library, _KEPT):
        return False
    library = torch.library.Library("aten", "IMPL")
    setattr(torch.library, _KEPT, library)  # the kernels are removed with the library object
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        warnings.filterwarnings("ignore", ".*[Oo]verriding a previously registered", UserWarning)
        for name in (ATTENTION, BACKWARD):
            kernel = _like(getattr(torch.ops.aten, name).default)
            library.impl(name, kernel, "CUDA")
    return True


def _like(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a kernel that only allocates the outputs, as the meta kernel describes them."""

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
