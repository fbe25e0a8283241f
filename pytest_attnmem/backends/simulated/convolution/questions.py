"""The questions to cuDNN's planner, as PyTorch asks them (ATen/native/cudnn/Conv_v8.cpp)."""

from __future__ import annotations

import json
from typing import Final

import torch

from ..op_plan import AllocationPlan, Free, OpCall, Temporary, Unplanned
from .array import Array
from .layer import Layer
from .settings import cudnn_settings

_WORKSPACE: Final = "workspace of cuDNN"
_TOO_LARGE: Final = (
    "the workspace of cuDNN's first plan for a convolution does not fit, and PyTorch then takes"
    " another plan"
)
_UNASKED: Final = "cuDNN plans this convolution, and was not asked"
_TIMED: Final = (
    "torch.backends.cudnn.benchmark has the device time cuDNN's plans for a convolution:"
    " turn it off"
)


def workspace(
    call: OpCall, layer: Layer, of: str, *, x: Array, w: Array, y: Array
) -> AllocationPlan:
    """Plans the workspace of one of cuDNN's convolutions.

    ``of`` is ``forward``, or the gradient that is computed: ``input`` or ``weight``.
    """
    settings = cudnn_settings()
    if settings.benchmark:
        return (Unplanned(_TIMED),)
    memory_format = x.format
    question = {
        "of": of,
        "dtype": str(x.dtype).removeprefix("torch."),
        **{name: one.for_cudnn(memory_format) for name, one in (("x", x), ("w", w), ("y", y))},
        "stride": layer.stride,
        "padding": layer.padding,
        "dilation": layer.dilation,
        "tf32": settings.tf32 and x.dtype is torch.float32,  # halves are read as they are
        "deterministic": settings.deterministic,
    }
    text = json.dumps(question, separators=(",", ":"))
    ask = call.cudnn_workspace
    answer = _UNASKED if ask is None else ask(text)
    if isinstance(answer, str):
        return (Unplanned(answer),)
    if not answer:
        return ()
    return (Temporary(_WORKSPACE, answer, _TOO_LARGE), Free(_WORKSPACE))
