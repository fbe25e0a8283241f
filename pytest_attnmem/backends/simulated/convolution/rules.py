"""Rules for convolutions, whose workspaces cuDNN plans.

Sources: aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp and cudnn/Conv_v8.cpp, and
cuda/DepthwiseConv2d.cu and DepthwiseConv3d.cu.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import torch

from ..scratch.op_plan import (
    AllocationPlan,
    Free,
    OpCall,
    Output,
    Rule,
    Temporary,
    Unplanned,
    argument,
)
from ..scratch.plan_parts import copy_bytes, temporary
from ..scratch.reduction_launch import blocks_plan, sum_kernel
from ..scratch.tensor_iterator import reduction
from . import array
from .array import PLAIN, Array, common_format, copying, made
from .layer import Layer, Library, cudnn_settings, layer, library
from .shapes import grad_for_cudnn, gradients, read_in_backward

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
    answer = call.cudnn_workspace(text) if call.cudnn_workspace else _UNASKED
    if isinstance(answer, str):
        return (Unplanned(answer),)
    if not answer:
        return ()
    return (Temporary(_WORKSPACE, answer, _TOO_LARGE), Free(_WORKSPACE))


_ARGUMENTS: Final = (
    *("input", "weight", "stride", "padding", "dilation", "transposed", "output_padding"),
    "groups",
)
_BFLOAT16: Final = (8, 0)


def forward(call: OpCall) -> AllocationPlan | None:
    """Plans ``convolution``; the bias is added in place."""
    found, who = _layer(call)
    if found is None or who is None:
        return None
    run = _forward_of_cudnn if who is Library.CUDNN else _forward_depthwise
    return _of_signal(found, run(call, found))


def backward(call: OpCall) -> AllocationPlan | None:
    """Plans ``convolution_backward``."""
    found, who = _layer(call)
    if found is None or who is None:
        return None
    grad = array.of(argument(call, "grad_output"))
    if found.signal is not None:
        grad = grad.as_2d()
    if who is Library.CUDNN:
        steps = (*_backward_of_cudnn(call, found, grad), *_of_bias(call, grad))
    elif len(grad.shape) == 4:
        steps = (*_backward_depthwise_2d(call, found, grad), *_of_bias(call, grad))
    else:
        steps = _backward_depthwise_3d(call, found, grad)
    return _of_signal(found, steps)


def _layer(call: OpCall) -> tuple[Layer | None, Library | None]:
    """Returns the convolution and who computes it; cuDNN knows bfloat16 from Ampere on."""
    found = layer(*(argument(call, name) for name in _ARGUMENTS))
    who = None if found is None else library(found)
    if found is not None and who is Library.CUDNN and found.input.dtype is torch.bfloat16:
        who = who if call.profile.compute_capability >= _BFLOAT16 else None
    return found, who


def _of_signal(layer: Layer, steps: AllocationPlan) -> AllocationPlan:
    """Returns the steps with the contiguous copy of a signal alive around them."""
    if layer.signal is None:
        return steps
    return copying("signal", layer.signal, layer.signal.contiguous(PLAIN), steps)


def _forward_of_cudnn(call: OpCall, layer: Layer) -> AllocationPlan:
    given = layer.input
    x = given.contiguous(common_format(given, layer.weight))
    memory_format = common_format(x, layer.weight)
    out = made(layer.output_shape, x.dtype, memory_format)
    inner = (Output(0), *_convolving(call, layer, x, out, memory_format, "input"))
    return copying("input", given, x, inner)


def _convolving(
    call: OpCall, layer: Layer, x: Array, out: Array, memory_format: torch.memory_format, name: str
) -> AllocationPlan:
    """Plans what cuDNN does with an input into an existing output, both ways (ConvShared.cpp)."""
    w, read = layer.weight.contiguous(memory_format), x.contiguous(memory_format)
    if layer.transposed:
        steps = workspace(call, layer, "input", x=out, w=w, y=read)
    else:
        steps = workspace(call, layer, "forward", x=read, w=w, y=out)
    return copying("weight", layer.weight, w, copying(f"{name} in order", x, read, steps))


def _backward_of_cudnn(call: OpCall, layer: Layer, grad: Array) -> AllocationPlan:
    wanted = argument(call, "output_mask")
    x = read_in_backward(layer, wanted[1])
    y = grad_for_cudnn(layer, x, grad)
    of_input, of_weight = gradients(layer, grad, wanted[1])
    steps: AllocationPlan = ()
    if wanted[0]:
        memory_format = common_format(y, layer.weight)
        opposite = replace(layer, transposed=not layer.transposed)
        steps = (Output(0), *_convolving(call, opposite, y, of_input, memory_format, "gradient"))
    if wanted[1]:
        steps = (*steps, *_gradient_of_weight(call, layer, x, y, of_weight))
    return copying("input", layer.input, x, copying("gradient", grad, y, steps))


def _gradient_of_weight(
    call: OpCall, layer: Layer, x: Array, y: Array, out: Array
) -> AllocationPlan:
    """Plans the gradient of the weight; a transposed convolution swaps input and gradient."""
    memory_format = common_format(x, y)
    read_x, read_y = x.contiguous(memory_format), y.contiguous(memory_format)
    images = {"x": read_y, "y": read_x} if layer.transposed else {"x": read_x, "y": read_y}
    steps = (_output(call, 1), *workspace(call, layer, "weight", **images, w=out))
    copies = [("input for the weight", x, read_x), ("gradient for the weight", y, read_y)]
    for copy in copies[::-1] if layer.transposed else copies:  # the inner one is made last
        steps = copying(*copy, steps)
    return steps


def _forward_depthwise(call: OpCall, layer: Layer) -> AllocationPlan:
    """Plans a kernel that copies the weight before it makes the result, or in 3d after."""
    x, w = layer.input.contiguous(PLAIN), layer.weight.contiguous(PLAIN)
    bias = argument(call, "bias")
    of_bias = 0 if bias is None else copy_bytes(bias)
    first, within = ((Output(0),), ()) if len(x.shape) == 5 else ((), (Output(0),))
    inner = copying("weight", layer.weight, w, temporary("bias", of_bias, within))
    return copying("input", layer.input, x, first, inner)


def _backward_depthwise_2d(call: OpCall, layer: Layer, grad: Array) -> AllocationPlan:
    """Plans ``conv_depthwise2d_backward_cuda``: the gradient of the weight comes first."""
    wanted, y = argument(call, "output_mask"), grad.contiguous(PLAIN)
    x, w = layer.input.contiguous(PLAIN), layer.weight.contiguous(PLAIN)
    steps: AllocationPlan = ()
    if wanted[1]:
        steps = copying("input", layer.input, x, (_output(call, 1),))
    if wanted[0]:
        steps = (*steps, *copying("weight", layer.weight, w, (Output(0),)))
    return copying("gradient", grad, y, steps)


def _backward_depthwise_3d(call: OpCall, layer: Layer, grad: Array) -> AllocationPlan:
    """Plans ``conv_depthwise3d_backward_cuda``, which sums the gradient of the bias itself."""
    wanted, y = argument(call, "output_mask"), grad.contiguous(PLAIN)
    x, w = layer.input.contiguous(PLAIN), layer.weight.contiguous(PLAIN)
    outputs = tuple(_output(call, place) for place in (0, 1) if wanted[place])
    steps: AllocationPlan = ()
    if wanted[0]:
        steps = copying("weight", layer.weight, w)
    if wanted[1]:
        steps = (*steps, *copying("input", layer.input, x))
    return (*outputs, *copying("gradient", grad, y, (*steps, *_of_bias(call, grad))))


def _of_bias(call: OpCall, grad: Array) -> AllocationPlan:
    """Plans the sum of the result's gradient over all but the channels."""
    if not argument(call, "output_mask")[2]:
        return ()
    dims, size = (0, *range(2, len(grad.shape))), grad.dtype.itemsize
    loop = reduction(grad.shape, grad.strides, size, [size], dims, False, grad.first)
    return (_output(call, 2), *blocks_plan(loop, sum_kernel(grad.dtype), call.profile))


def _output(call: OpCall, place: int) -> Output:
    """Returns the step of a gradient: those that are not wanted are no outputs."""
    return Output(sum(argument(call, "output_mask")[:place]))


RULES: Final = MappingProxyType[str, Rule](
    {"aten.convolution.default": forward, "aten.convolution_backward.default": backward}
)
