"""Rules for reductions into indexed elements (``scatter_reduce``, ``index_reduce``).

Source: ``scatter_reduce_two`` in ATen's TensorAdvancedIndexing.cpp, ``index_reduce_func_cuda_impl``
in cuda/Indexing.cu. A mean counts the values of each element.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Rule
from .plan_steps import allocate_outputs, temporary
from .tensor_bytes import dense_bytes


def _scatter_reduce(call: OpCall) -> AllocationPlan | None:
    x, _dim, index, source = call.args[:4]
    if not (x.numel() and index.numel()):
        return None
    if argument(call, "reduce") != "mean":
        return allocate_outputs(call)
    empty = temporary("elements without a value", x.numel())
    count = temporary("ones", dense_bytes(source), temporary("count", dense_bytes(x), empty))
    return (*allocate_outputs(call), *count)


def _index_reduce(call: OpCall) -> AllocationPlan | None:
    x, _dim, index, source = call.args[:4]
    if not (x.numel() and index.is_contiguous() and source.is_contiguous() and source.numel()):
        return None
    if argument(call, "reduce") != "mean":
        return allocate_outputs(call)
    if call.deterministic:
        return None  # the count sorts its places
    ones = temporary("ones", dense_bytes(source))
    empty = temporary("elements without a value", x.numel())
    return (*allocate_outputs(call), *temporary("count", dense_bytes(x), ones, empty))


#: Sums alone: no other kernel knows complex numbers.
TAKES_COMPLEX: Final = ("aten.scatter_reduce.two", "aten.scatter_reduce_.two")
RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.scatter_reduce.two": _scatter_reduce,
        "aten.scatter_reduce_.two": _scatter_reduce,
        "aten.index_reduce.default": _index_reduce,
        "aten.index_reduce_.default": _index_reduce,
    }
)
