"""PyTorch's own errors for calls that Python rules of sizes refuse, in other words than a device.

A kernel of the CPU checks the sizes with the code of the device's kernel, before it computes. Its
tensors have the sizes of the call's, and one element each, unless it writes into them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

#: How errors begin whose checks the kernels share, so that a kernel refuses the call too.
_WORDED: Final = (
    *("Attempting to broadcast", "output with shape", "a and b must have same", "a must be 2D"),
    *("size mismatch, got", "inconsistent tensor size", "Given normalized_shape"),
    *("Expected weight to be of same", "Invalid channel dimensions", "Given an input with spatial"),
    *("Sizes of tensors must match", "Number of dimensions of tensors must", "mean(): could not"),
    *("argmax: Expected", "argmin: Expected", "k not in range", "Size does not match at dimension"),
    *("gather(): Expected dtype", "Expected index ", "Number of indices", "index_copy_(): Number"),
    *("'weight' must be 2-D", "0D or 1D target tensor", "shifts and dimensions must align"),
    *("tensors used as indices", "Expected 3D or 4D tensor", "Invalid input shape for pixel_"),
    *("Input tensors must have 2", "stack expects a non-empty", "clamp called but both min"),
)
#: The error of a rule that got values of another device.
_MIXED: Final = "Mismatching aten."
_MOST_WRITTEN: Final = 1 << 30
ERRORS: Final = (RuntimeError, IndexError, AssertionError, NotImplementedError, ValueError)


def own_error(
    error: Exception,
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    mixed: Callable[[Any], Exception],
) -> Exception:
    """Returns the error of PyTorch's kernels for a call, or ``error``; ``mixed`` makes another."""
    text = str(error)
    if text.startswith(_MIXED):
        return mixed(func)
    if not text.startswith(_WORDED):
        return error
    most = _MOST_WRITTEN if func._schema.is_mutable else 0

    def stand_in(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor):
            return value
        if value.numel() * value.dtype.itemsize <= most:
            return torch.empty(value.shape, dtype=value.dtype)
        return torch.empty((), dtype=value.dtype).expand(value.shape)

    with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad():
        try:
            func(*tree_map(stand_in, args), **tree_map(stand_in, dict(kwargs)))
        except (RuntimeError, IndexError) as own:
            return own.with_traceback(None)
    return error
