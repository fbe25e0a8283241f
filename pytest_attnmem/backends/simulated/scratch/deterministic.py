"""What ``torch.use_deterministic_algorithms`` changes about a plan: new memory is filled.

``resize_`` makes a tensor of one element to see new memory through
(``fill_resize_deterministic_`` in aten/src/ATen/native/Resize.h), and some operators resize an
empty result or scratch, as null tells. Rules of other algorithms stand with the operators' own,
as PyTorch asks in their kernels. What raises there, or has other scratch, is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import torch

from .nonzero import PLACES
from .op_plan import AllocationPlan, Free, OpCall, Output, Step, Temporary
from .plan_parts import accumulate_type

is_deterministic = torch._C._get_deterministic_algorithms
_fills = torch._C._get_deterministic_fill_uninitialized_memory
_ELEMENT: Final = "element to fill through"
_INDEX: Final = 8

_RESIZING: Final = """
    abs complex logical_and logical_or logical_xor logical_not where arange range eye embedding
    index_select bucketize searchsorted masked_select _adaptive_avg_pool2d reflection_pad2d
    glu_backward mish_backward _prelu_kernel_backward kthvalue std var std_mean var_mean
"""
#: Operators whose results are resized.
_RESIZED: Final = frozenset(_RESIZING.split())
#: Operator → the scratch that is resized.
_SCRATCH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sort": "numbers",
        **dict.fromkeys(("index", "masked_select", "embedding_dense_backward"), PLACES),
        **dict.fromkeys(("index_put", "index_put_", "_index_put_impl_"), "indices"),
        "native_group_norm_backward": "c1",
    }
)
_UNKNOWN: Final = """
    index_reduce index_reduce_ _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward
    adaptive_max_pool2d_backward avg_pool3d_backward grid_sampler_2d_backward
    grid_sampler_3d_backward max_pool3d_with_indices_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward reflection_pad1d_backward
    reflection_pad3d_backward upsample_linear1d_backward upsample_bilinear2d_backward
    upsample_bicubic2d_backward upsample_trilinear3d_backward _upsample_bilinear2d_aa_backward
    _upsample_bicubic2d_aa_backward _ctc_loss_backward put put_ bincount nll_loss2d_forward
    scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_add index_add_
    index_copy index_copy_ _embedding_bag_backward _embedding_bag_dense_backward
    allclose angle polar unfold_backward _unsafe_index_put median im2col multinomial unique_dim
    _unique2 unique_consecutive soft_margin_loss multi_margin_loss multilabel_margin_loss_forward
    multi_margin_loss_backward soft_margin_loss_backward max_unpool2d max_unpool3d
    _adaptive_avg_pool3d lu_unpack triangular_solve ormqr geqrf cholesky_solve cholesky_inverse
"""
#: Operators that raise, that have other scratch, or whose results are resized in other ways.
_REFUSED: Final = frozenset(_UNKNOWN.split())


def deterministic_plan(call: OpCall, plan: AllocationPlan) -> AllocationPlan | None:
    """Returns the plan of a call under deterministic algorithms; None if it is unknown."""
    packet = call.op.split(".")[1]
    if packet in _REFUSED or (packet == "abs" and call.args[0].is_complex()):
        return None
    return tuple(_filled(call, packet, plan)) if _fills() else plan


def filled_through(itemsize: int) -> AllocationPlan:
    """Returns the plan of ``resize_`` for new memory: an element to fill it through."""
    return (Temporary(_ELEMENT, itemsize), Free(_ELEMENT)) if _fills() else ()


def _filled(call: OpCall, packet: str, plan: AllocationPlan) -> Iterator[Step]:
    for step in plan:
        yield step
        if type(step) is Output and packet in _RESIZED and call.outputs[step.index].numel():
            yield from filled_through(call.outputs[step.index].dtype.itemsize)
        elif type(step) is Temporary and step.nbytes and step.name == _SCRATCH.get(packet):
            yield from filled_through(_element_of_scratch(call, packet))


def _element_of_scratch(call: OpCall, packet: str) -> int:
    if packet == "native_group_norm_backward":
        return accumulate_type(call.args[1].dtype).itemsize
    if packet == "embedding_dense_backward":
        return int(call.args[1].dtype.itemsize)
    return _INDEX
