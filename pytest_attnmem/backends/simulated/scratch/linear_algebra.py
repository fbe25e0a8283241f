"""Rules for linear algebra that needs no cuSOLVER (BatchLinearAlgebra.cpp and cuda/linalg of ATen).

Solvers with a workspace of cuSOLVER or MAGMA have a plan for empty matrices.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .plan_steps import CUBLAS, allocate_outputs, temporary
from .tensor_bytes import copy_bytes, dense_bytes

_POINTER: Final = 8
_INDEX: Final = 8
#: Larger matrices in fewer batches are solved one by one.
_FEW, _LARGE = 8, 64
_EMPTY: Final = ("cholesky", "linalg_ldl_solve")
#: Bytes of the number that tells whether a matrix had a wrong argument.
_NUMBER: Final = 4


def only_empty(call: OpCall) -> AllocationPlan | None:
    """Plans a call whose first matrix has no elements; from 2.15 on, some take a workspace."""
    first: torch.Tensor = call.args[0]
    takes_workspace = call.version >= (2, 15) and "cholesky" in call.op
    return None if first.numel() or takes_workspace else allocate_outputs(call)


def _only_empty_factors(call: OpCall) -> AllocationPlan | None:
    """Plans ``cholesky_solve`` or ``cholesky_inverse`` of matrices of no rows."""
    plan = only_empty(call)
    solves = argument(call, "input2")
    factors: torch.Tensor = call.args[0] if solves is None else solves
    if plan is None or factors.numel():
        return None
    one = prod(factors.shape[:-2]) == 1
    return (*plan, *temporary("numbers of errors", _NUMBER)) if one else plan


def _only_empty_reflections(call: OpCall) -> AllocationPlan | None:
    """Plans a product of reflections of no rows; cuSOLVER is asked about no batch of some rows."""
    factors, scales = call.args[:2]
    asks = scales.shape[-1] and prod(factors.shape[-2:])
    return None if asks else only_empty(call)


def _unpack(call: OpCall) -> AllocationPlan | None:
    """Plans the permutation, which the pivots are applied to: the numbers of the rows."""
    data, pivots = call.args[:2]
    if not argument(call, "unpack_pivots"):
        return allocate_outputs(call)
    rows = data.shape[-2] * _INDEX
    dense = temporary("contiguous pivots", copy_bytes(pivots))
    batch = prod(pivots.shape[:-1])
    if batch == 1:
        return (*allocate_outputs(call), *temporary("rows", rows, dense))
    every = Temporary("all rows", rows * batch)
    return (*allocate_outputs(call), *temporary("rows", rows, (every,)), *dense, Free(every.name))


def _pointers(call: OpCall, matrix: torch.Tensor) -> AllocationPlan | None:
    """Plans a triangular solve by cuBLAS: the places of the matrices of a batch."""
    batch = prod(call.outputs[0].shape[:-2])
    if not call.outputs[0].numel():
        if matrix.numel():
            return None
        return (CUBLAS,) if call.version >= (2, 15) else ()
    if batch <= _FEW and matrix.shape[-1] >= _LARGE:
        one_by_one: AllocationPlan = (CUBLAS,) * batch
        return one_by_one
    places = batch * _POINTER
    return temporary(
        "places of matrices", places, temporary("places of results", places, (CUBLAS,))
    )


def _solved(call: OpCall) -> AllocationPlan | None:
    """Plans ``triangular_solve``, which returns a copy of the matrix too."""
    matrix: torch.Tensor = call.args[1]
    steps = _pointers(call, matrix)
    return None if steps is None else (*allocate_outputs(call), *steps)


def _solve_triangular(call: OpCall) -> AllocationPlan | None:
    """Plans a new result, and copies of a matrix whose columns or rows are not contiguous."""
    matrix, other = call.args[:2]
    if not call.outputs:
        return None
    if not call.outputs[0].numel():
        empty = _pointers(call, matrix)
        return None if empty is None else (*allocate_outputs(call), *empty)
    shape = torch.broadcast_shapes(matrix.shape[:-2], other.shape[:-2])
    if tuple(matrix.shape[:-2]) != tuple(shape) or not _is_readable(matrix):
        return None
    steps = _pointers(call, matrix)
    return None if steps is None else (*allocate_outputs(call), *steps)


def _is_readable(matrix: Any) -> bool:
    return bool(matrix.is_contiguous() or matrix.mT.is_contiguous()) and dense_bytes(matrix) > 0


RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}.default": only_empty for name in _EMPTY},
        "aten.cholesky_inverse.default": _only_empty_factors,
        "aten.cholesky_solve.default": _only_empty_factors,
        "aten.linalg_householder_product.default": _only_empty_reflections,
        "aten.lu_unpack.default": _unpack,
        "aten.triangular_solve.default": _solved,
        "aten.linalg_solve_triangular.default": _solve_triangular,
    }
)
