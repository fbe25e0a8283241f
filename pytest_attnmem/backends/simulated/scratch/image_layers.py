"""Rules for pooling, upsampling and padding (AveragePool2d.cu, UpSample*.cu and others of ATen).

A kernel for images allocates its outputs, and reads its inputs from copies of one memory format.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

import torch

from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .plan_parts import (
    allocate_outputs,
    contiguous,
    dense_bytes,
    format_copy_bytes,
    suggested_format,
    temporary,
    wrap_dim,
)

#: The results, in a plan's order of steps: they are allocated, or written by way of a copy.
_OUTPUTS: Final = "outputs"
_RESULTS: Final = "contiguous results"
_PLAIN: Final = torch.contiguous_format
#: The channels from which on an image in channels-last format is resized as it is.
_FEWEST_CHANNELS: Final = 4


class _Steps(NamedTuple):
    """The allocations of a kernel, in order: names of inputs that it copies, and its outputs."""

    order: tuple[str, ...]
    like: str = ""  # the input whose memory format the copies have; contiguous ones if empty
    batch: int = 4  # the rank of a batch of images; others are read contiguous
    rank: int = 0  # the rank of an input from which on it is copied


def _copying(kernel: _Steps) -> Rule:
    def rule(call: OpCall) -> AllocationPlan | None:
        if not all(output.numel() for output in call.outputs):
            empty = not any(output.numel() for output in call.outputs) and not call.args[0].numel()
            return allocate_outputs(call) if empty else None
        memory_format = _PLAIN
        if kernel.like and argument(call, kernel.like).dim() == kernel.batch:
            memory_format = suggested_format(argument(call, kernel.like))
        plan: AllocationPlan = ()
        for name in reversed(kernel.order):
            if name == _OUTPUTS:
                plan = (*allocate_outputs(call), *plan)
            elif name == _RESULTS:
                plan = _contiguous_results(call, plan)
            else:
                tensor = argument(call, name)
                read_as_is = tensor.dim() < kernel.rank
                nbytes = 0 if read_as_is else format_copy_bytes(tensor, memory_format)
                plan = temporary(f"contiguous {name}", nbytes, plan)
        return plan

    return rule


def _contiguous_results(call: OpCall, inner: AllocationPlan) -> AllocationPlan:
    return contiguous({f"result {at}": output for at, output in enumerate(call.outputs)}, inner)


def _by_format(call: OpCall) -> AllocationPlan | None:
    """Plans a backward that reads the gradient of an image in channels-last format as it is."""
    if suggested_format(argument(call, "self")) is not _PLAIN:
        return allocate_outputs(call)
    return _copying(_Steps((_OUTPUTS, "grad_output")))(call)


def _resizing(by_format: _Steps, plain: _Steps) -> Rule:
    """Returns a rule that plans by the memory format of an image, or by the contiguous kernel.

    A few channels are too few for the kernel of the format. An image that keeps its size is copied.
    """
    in_format, contiguous = _copying(by_format), _copying(plain)

    def rule(call: OpCall) -> AllocationPlan | None:
        x: torch.Tensor = argument(call, by_format.like)
        if call.outputs[0].shape == x.shape:
            return allocate_outputs(call)
        by_channel = suggested_format(x) is not _PLAIN and x.shape[1] >= _FEWEST_CHANNELS
        return (in_format if by_channel else contiguous)(call)

    return rule


def _in_blocks(call: OpCall) -> AllocationPlan | None:
    """Plans ``im2col`` and ``col2im``: the result begins with the size of the input.

    It keeps that storage if the storage is large enough (Im2Col.cu, Col2Im.cu).
    """
    x: torch.Tensor = call.args[0]
    made, wanted = dense_bytes(x), dense_bytes(call.outputs[0])
    if not made or not wanted:
        return None if made or wanted else allocate_outputs(call)
    copy = format_copy_bytes(x, _PLAIN)
    if wanted <= made:
        return (Output(0, made), *temporary("contiguous input", copy))
    resized = (Output(0), Free("first result"))
    return (Temporary("first result", made), *temporary("contiguous input", copy, resized))


def _shuffling(call: OpCall) -> AllocationPlan | None:
    """Plans ``channel_shuffle``, which copies once, unless the result is a view."""
    x, groups = call.args
    trivial = 1 in (groups, *x.shape[2:]) or x.shape[1] == groups
    return None if trivial or not x.numel() else allocate_outputs(call)


def _unfold_backward(call: OpCall) -> AllocationPlan | None:
    """Plans the places in the dimension, if the windows overlap (UnfoldBackward.cpp)."""
    grad, sizes, dim, size, step = call.args
    if not grad.numel():
        return allocate_outputs(call)
    covered = (grad.shape[wrap_dim(dim, len(sizes))] - 1) * step + size if sizes else 0
    places = 0 if step >= size else covered * 8
    return (*allocate_outputs(call), *temporary("places", places))


_NEAREST_2D: Final = ("upsample_nearest2d", "_upsample_nearest_exact2d")
_ANTIALIASED: Final = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
_NEAREST: Final = tuple(
    f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 3)
)
#: Kernels that read any layout and write to the outputs.
_ANY_LAYOUT: Final = (
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"),
    *("replication_pad1d", "replication_pad2d", "replication_pad3d", "reflection_pad3d_backward"),
    *(f"replication_pad{rank}d_backward" for rank in (1, 2, 3)),
    *("fractional_max_pool2d", "fractional_max_pool3d", "fractional_max_pool3d_backward"),
    *("grid_sampler_2d", "grid_sampler_2d_backward"),
    *("grid_sampler_3d", "grid_sampler_3d_backward"),
)


def _by_cudnn(call: OpCall) -> AllocationPlan:
    """Plans samples by cuDNN, which copies what repeats elements, and a grid with gaps."""
    x, grid, *grads = call.args
    copies = [dense_bytes(t) * (0 in t.stride()) for t in (x, *grads)]
    copies.append(0 if grid.is_contiguous() else dense_bytes(grid))
    plan = allocate_outputs(call)
    for index, nbytes in enumerate(copies):
        plan = temporary(f"copy {index}", nbytes, plan)
    return plan


def _table() -> dict[str, Rule]:
    grad, outputs = "grad_output", _OUTPUTS
    contiguous_input = ("avg_pool3d", *(f"reflection_pad{rank}d" for rank in (1, 2, 3)))
    contiguous_gradient = (
        *("reflection_pad1d", "reflection_pad2d", "avg_pool3d", "_adaptive_avg_pool3d"),
        *("adaptive_max_pool3d", "upsample_linear1d", "upsample_bicubic2d"),
        *(*_NEAREST, *_ANTIALIASED),
    )
    images: dict[str, _Steps] = {
        **dict.fromkeys(contiguous_input, _Steps((outputs, "self"))),
        **{f"{kind}_backward": _Steps((outputs, grad)) for kind in contiguous_gradient},
        **dict.fromkeys((*_NEAREST, *_ANTIALIASED), _Steps((outputs, _RESULTS, "self"))),
        **dict.fromkeys(("max_unpool2d", "max_unpool3d"), _Steps(("self", "indices", outputs))),
        "avg_pool2d": _Steps((outputs, "self"), like="self"),
        "avg_pool2d_backward": _Steps((outputs, "self", grad), like="self"),
        "_adaptive_avg_pool2d": _Steps(("self", outputs), like="self", rank=4),
        "_adaptive_avg_pool3d": _Steps(("self", outputs), rank=5),
        "max_pool2d_with_indices": _Steps((outputs, "self"), like="self"),
        "max_pool2d_with_indices_backward": _Steps((outputs, "self", grad, "indices"), like="self"),
        "adaptive_max_pool2d": _Steps((outputs, _RESULTS, "self"), rank=4),
        "adaptive_max_pool2d_backward": _Steps((outputs, grad, "indices", _RESULTS)),
        "adaptive_max_pool3d": _Steps((outputs, "self"), rank=5),
        "fractional_max_pool2d_backward": _Steps((grad, outputs)),
        "max_pool3d_with_indices": _Steps((outputs, "self"), like="self", batch=5),
        "max_pool3d_with_indices_backward": _Steps(
            (outputs, grad, "indices"), like="self", batch=5
        ),
        "upsample_trilinear3d_backward": _Steps((outputs, grad, _RESULTS)),
    }
    resized = _resizing(_Steps((outputs, "self"), like="self"), _Steps((outputs, _RESULTS, "self")))
    of_resized = _Steps((outputs, grad), like=grad), _Steps((outputs, _RESULTS, grad))
    rules: dict[str, Rule] = {
        **{name: _copying(kernel) for name, kernel in images.items()},
        **dict.fromkeys(_NEAREST_2D, resized),
        **{f"{kind}_backward": _resizing(*of_resized) for kind in _NEAREST_2D},
        "upsample_bilinear2d_backward": _resizing(*of_resized),
    }
    return {f"aten.{name}.default": rule for name, rule in rules.items()}


RULES: Final = MappingProxyType[str, Rule](
    {
        **_table(),
        **{f"aten.{name}.default": allocate_outputs for name in _ANY_LAYOUT},
        "aten._adaptive_avg_pool2d_backward.default": _by_format,
        "aten.cudnn_grid_sampler.default": _by_cudnn,
        "aten.cudnn_grid_sampler_backward.default": _by_cudnn,
        "aten.im2col.default": _in_blocks,
        "aten.col2im.default": _in_blocks,
        "aten.channel_shuffle.default": _shuffling,
        "aten.unfold_backward.default": _unfold_backward,
    }
)
