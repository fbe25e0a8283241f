"""What operators allocate besides under ``torch.use_deterministic_algorithms``.

PyTorch fills new memory then, unless ``torch.utils.deterministic.fill_uninitialized_memory`` is
False. ``resize_`` makes a tensor of one element to see the new memory through
(``fill_resize_deterministic_`` in aten/src/ATen/native/Resize.h), and operators resize an empty
result or scratch. Recordings tell which: ``opinfo-deterministic.json``, ``deterministic_programs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import torch

from .op_plan import AllocationPlan, Free, OpCall, Output, Step, Temporary
from .scratch.nonzero import PLACES
from .scratch.tensor_bytes import accumulate_type

_is_deterministic = torch._C._get_deterministic_algorithms
_fills = torch._C._get_deterministic_fill_uninitialized_memory
#: New memory is filled.
FILLING: Final = 2
_INDEX: Final = 8
_ELEMENT: Final = "element to fill through"
_RESULTS: Final = """
    abs angle complex polar logical_and logical_or logical_xor logical_not where.self
    arange range eye embedding index_select bucketize.Tensor searchsorted.Tensor masked_select
    _adaptive_avg_pool2d _adaptive_avg_pool3d reflection_pad2d addbmm _pdist_forward
    glu_backward mish_backward _prelu_kernel_backward soft_margin_loss_backward
    logsumexp kthvalue mode std.correction var.correction std_mean.correction var_mean.correction
    multi_margin_loss multi_margin_loss_backward nll_loss2d_forward max_unpool2d max_unpool3d
"""
#: Operators, or overloads, whose results are resized.
_RESIZED: Final = frozenset(f"aten.{name}" for name in _RESULTS.split())
#: Operators whose results are resized for complex numbers alone, or for all but these.
_OF_COMPLEX: Final[Mapping[str, bool]] = MappingProxyType({"aten.abs": False, "aten.angle": True})
_UNKNOWN: Final = """
    _linalg_det _linalg_slogdet _linalg_solve_ex linalg_cholesky_ex linalg_inv_ex linalg_lu_solve
    linalg_lu_factor_ex cholesky_inverse cholesky_solve geqrf linalg_eig linalg_householder_product
    linalg_lstsq linalg_lu linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular ormqr
    lu_unpack triangular_solve
    median nanmedian soft_margin_loss multilabel_margin_loss_forward
    im2col mvlgamma unique_consecutive unique_dim _unique2
    multinomial fractional_max_pool3d
"""
#: Operators whose memory under deterministic algorithms is unknown.
_UNLIKE: Final = frozenset(f"aten.{name}" for name in _UNKNOWN.split())


def algorithms() -> int:
    """Returns 0; 1 if algorithms are deterministic; ``FILLING`` if they fill new memory too."""
    return 0 if not _is_deterministic() else FILLING if _fills() else 1


def _size_of(at: int) -> Callable[[OpCall], int]:
    return lambda call: int(call.args[at].dtype.itemsize)


def _index(_: OpCall) -> int:
    return _INDEX


def _accumulated(call: OpCall) -> int:
    return accumulate_type(call.args[1].dtype).itemsize


_SORTED_PUT: Final = MappingProxyType({"indices": _index, PLACES: _index})
#: Operator → the scratch that is resized, and the bytes of one element.
_RESIZED_SCRATCH: Final[Mapping[str, Mapping[str, Callable[[OpCall], int]]]] = MappingProxyType(
    {
        "aten.sort": {"numbers": _index},
        "aten.abs": {"complex result": _size_of(0)},
        "aten.angle": {"complex result": _size_of(0)},
        "aten.allclose": {"magnitude": _size_of(0), "error": _size_of(0)},
        "aten.isinf": {"magnitudes": _size_of(0)},
        "aten.masked_select": {PLACES: _index},
        "aten.index": {PLACES: _index},
        "aten.unfold_backward": {"places": _index},
        "aten.native_group_norm_backward": {"c1": _accumulated},
        "aten.logsumexp": {"magnitudes": _size_of(0)},
        "aten.embedding_dense_backward": {"places": _size_of(1)},
        "aten._embedding_bag_backward": {"places": _size_of(1)},
        **{
            f"aten.{name}": _SORTED_PUT
            for name in ("index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_")
        },
    }
)


def filled_through(itemsize: int) -> AllocationPlan:
    """Returns the plan of ``resize_`` for new memory: an element to fill it through."""
    return Temporary(_ELEMENT, itemsize), Free(_ELEMENT)


def deterministic_plan(call: OpCall, plan: AllocationPlan) -> AllocationPlan | None:
    """Returns the plan of a call under deterministic algorithms; None if it is unknown."""
    packet = call.op.rpartition(".")[0]
    if _UNLIKE & {packet, call.op}:
        return None
    if not call.fills:
        return plan
    results = bool(_RESIZED & {packet, call.op})
    if packet in _OF_COMPLEX:
        results = call.args[0].is_complex() is _OF_COMPLEX[packet]
    return tuple(_filled(call, plan, results, _RESIZED_SCRATCH.get(packet, {})))


def _filled(
    call: OpCall,
    plan: AllocationPlan,
    results: bool,
    scratch: Mapping[str, Callable[[OpCall], int]],
) -> Iterator[Step]:
    for step in plan:
        yield step
        nbytes = 0
        if type(step) is Output and results and call.outputs[step.index].numel():
            nbytes = call.outputs[step.index].dtype.itemsize
        elif type(step) is Temporary and step.name in scratch and step.nbytes:
            nbytes = scratch[step.name](call)
        if nbytes:
            yield from filled_through(nbytes)
