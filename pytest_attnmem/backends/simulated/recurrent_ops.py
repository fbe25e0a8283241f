"""Replacements for recurrent networks, by whether cuDNN or PyTorch's own cells compute them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from .op_kinds import in_cpp
from .recurrent import CELLS, NETWORKS
from .transforms import is_transformed, unknown_inside
from .unknown_scratch import UnknownScratch

#: The dtypes that cuDNN takes; bfloat16 only of some devices and versions.
_CUDNN_DTYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
BY_CUDNN: Final = (
    "cuDNN's recurrent network takes scratch that is known on a GPU alone; PyTorch's own can be had"
    " with torch.backends.cudnn.flags(enabled=False)"
)


def recurrent_ops(unknown: UnknownScratch) -> dict[Any, Callable[..., Any]]:
    """Returns the replacements by operator; ``unknown`` learns of calls without a model."""

    def network(op: Any, run: Callable[..., Any], x: Any, *rest: Any) -> Any:
        if is_for_cudnn(x):
            unknown.explain(BY_CUDNN)
        return modelled(op, run, x, *rest)

    def modelled(op: Any, run: Callable[..., Any], *args: Any) -> Any:
        out = run(*args)
        if out is not NotImplemented:
            if is_transformed():
                unknown.mark(unknown_inside(op))
            return out
        made = in_cpp(op, *args)
        unknown.mark(str(op))
        return made

    return {
        **{op: partial(network, op, run) for op, run in NETWORKS.items()},
        **{op: partial(modelled, op, run) for op, run in CELLS.items()},
    }


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
