"""Rules for embedding and the gradient of its weight.

Source: aten/src/ATen/native/Embedding.cpp, cuda/Embedding.cu and cuda/EmbeddingBackwardKernel.cu.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from .cub import radix_sort_storage, scan_storages, unique_storage
from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Step, Temporary, argument
from .plan_parts import HALVES, allocate_outputs, contiguous, dense_bytes, row_stride, temporary

if TYPE_CHECKING:
    import torch

_ROWS: Final = 10  # rows of an index that a warp adds up (NROWS_PER_THREAD)
_SCALAR: Final = 8
_MAX: Final = 2  # the mode of a bag
_UNSORTED: Final = 3072  # up to so many indices are added unsorted


def _forward(call: OpCall) -> AllocationPlan:
    """Plans ``index_select`` with the indices as one row."""
    indices: torch.Tensor = call.args[1]
    row = row_stride(indices.shape, indices.stride()) is not None
    copied = 0 if row else dense_bytes(indices)
    return temporary("one row of indices", copied, allocate_outputs(call))


def _backward(call: OpCall) -> AllocationPlan | None:
    """Plans the gradient: few indices are added at once; many are sorted and split by index."""
    grad, indices, weights, _padding, scale = call.args
    count = indices.numel()
    if scale and count:
        return None
    many = count > _UNSORTED
    added = _sorted(call, grad, indices, weights) if many else allocate_outputs(call)
    return None if added is None else contiguous({"indices": indices, "gradient": grad}, added)


def _sorted(
    call: OpCall, grad: torch.Tensor, indices: torch.Tensor, weights: int
) -> AllocationPlan | None:
    count, index = indices.numel(), indices.dtype.itemsize
    bits = max(weights.bit_length(), 1)
    storage = radix_sort_storage(count, index, index, bits, call.profile)
    unique = unique_storage(count, index, call.profile)
    if storage is None or unique is None:
        return None
    every = count * index
    segments = min(count, weights)
    partial = count // _ROWS + segments
    (scan,) = scan_storages(segments, index, whole=True)
    steps: list[Step] = [
        Temporary("sorted indices", every),
        Temporary("original places", every),
        *temporary("places", every, temporary("sort", storage)),
        *allocate_outputs(call),
        Temporary("segment offsets", every),
        Temporary("number of segments", _SCALAR),
        *temporary("unique", every, temporary("unique's storage", unique)),
        Temporary("partials per segment", segments * index),
        Temporary("partial offsets", segments * index),
        *temporary("scan", scan),
        Temporary("number of partials", _SCALAR),
        Temporary("segments of partials", partial * index),
        *_sums(call, grad, weights, segments, partial, index),
    ]
    order = (
        *("segments of partials", "number of partials", "partial offsets"),
        *("partials per segment", "number of segments", "segment offsets"),
        *("original places", "sorted indices"),
    )
    return (*steps, *(Free(name) for name in order))


def _sums(
    call: OpCall, grad: torch.Tensor, weights: int, segments: int, partial: int, index: int
) -> AllocationPlan:
    """Plans a partial sum for each segment, unless a few indices have many rows.

    Then the rows are added atomically, into a float tensor if the gradient has half precision;
    no deterministic algorithm does that.
    """
    columns = grad.shape[-1]
    lanes = -(-columns // 32) * 32
    blocks = -(-segments * lanes // min(lanes, 1024))
    sums = partial * columns * (4 if grad.dtype in HALVES else grad.dtype.itemsize)
    few = blocks < 4 * call.profile.multiprocessors
    if call.deterministic or not (few and partial > 4 * blocks):
        return temporary("sums", sums)
    halves = grad.dtype in HALVES
    inner = temporary("float gradient", weights * columns * 4 if halves else 0)
    return temporary("segments by partials", partial * index, inner)


def _bag(call: OpCall) -> AllocationPlan | None:
    """Plans the sizes of bags, the bag of each index, the results, and where the largest are."""
    indices, offsets = call.args[1:3]
    if not (indices.is_contiguous() and offsets.is_contiguous() and len(call.outputs) >= 3):
        return None
    plan: AllocationPlan = (
        Output(2, dense_bytes(offsets)),
        Output(1, dense_bytes(indices)),
        Output(0),
    )
    if len(call.outputs) < 4:
        return plan
    bags = call.outputs[0].numel() * offsets.dtype.itemsize
    return (*plan, Output(3, bags if argument(call, "mode") == _MAX else 0))


def _bag_backward(call: OpCall) -> AllocationPlan | None:
    """Plans the gradient of the weight: of sums and means, all indices are sorted."""
    grad, indices, weights = call.args[0], call.args[1], argument(call, "num_weights")
    scaled, sparse = argument(call, "scale_grad_by_freq"), argument(call, "sparse")
    if scaled or sparse or not indices.numel():
        return None
    mode_max = argument(call, "mode") == _MAX
    added = allocate_outputs(call) if mode_max else _sorted(call, grad, indices, weights)
    return None if added is None else contiguous({"gradient": grad}, added)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.embedding.default": _forward,
        "aten.embedding_dense_backward.default": _backward,
        "aten._embedding_bag.default": _bag,
        "aten._embedding_bag_forward_only.default": _bag,
        "aten._embedding_bag_backward.default": _bag_backward,
        "aten._embedding_bag_dense_backward.default": _bag_backward,
        "aten._embedding_bag_per_sample_weights_backward.default": allocate_outputs,
    }
)
