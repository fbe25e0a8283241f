"""Rules for factorizations, solutions with them, and transforms (``cuda/linalg`` of ATen).

One matrix goes to cuSOLVER, whose scratch is known on a GPU alone. A batch of small matrices goes
to cuBLAS, which takes the places of the matrices, or to cuSOLVER's batched Cholesky decomposition.
Larger matrices go to other libraries, by their number and size, and have no rule.
"""

from __future__ import annotations

from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary, Unplanned
from .linear_algebra import only_empty
from .plan_steps import CUBLAS, allocate_outputs, temporary
from .tensor_bytes import dense_bytes

if TYPE_CHECKING:
    import torch

TAKES_COMPLEX: Final = True
#: The rows of the largest matrices that all versions of PyTorch give to cuBLAS in any batch.
_ROWS: Final = 8
_POINTER: Final = 8
_INDEX: Final = 8
_INT: Final = 4
_GPU: Final = "takes scratch that is known on a GPU alone; keep it out of the window"


def _of_batch(steps: Rule, call: OpCall, *, by: str) -> AllocationPlan | None:
    """Plans a call for a batch of small matrices by ``steps``; ``by`` factorizes one matrix."""
    matrix: torch.Tensor = call.args[0]
    if not matrix.numel():
        return steps(call)
    if prod(matrix.shape[:-2]) == 1:
        return (*allocate_outputs(call), Unplanned(f"cuSOLVER's {by} {_GPU}"))
    return steps(call) if max(matrix.shape[-2:]) <= _ROWS else None


def _places(call: OpCall, name: str, *inner: AllocationPlan) -> AllocationPlan:
    """Returns the inner plans with the places of all matrices of the batch around them."""
    return temporary(name, prod(call.args[0].shape[:-2]) * _POINTER, *inner)


def _factorize(call: OpCall) -> AllocationPlan:
    """Plans the factorization of a copy by cuBLAS, unless it has no elements."""
    if not call.args[0].numel():
        return ()
    return _places(call, "places of matrices", (CUBLAS,))


def _solve(call: OpCall) -> AllocationPlan:
    """Plans the solution by cuBLAS in place of the right-hand sides."""
    return _places(call, "places of factors", _places(call, "places of solutions", (CUBLAS,)))


def _lu_factor_ex(call: OpCall) -> AllocationPlan | None:
    square = call.args[0].shape[-2] == call.args[0].shape[-1]
    pivots = call.kwargs.get("pivot", True)
    return (*allocate_outputs(call), *_factorize(call)) if square and pivots else None


def _lu_solve(call: OpCall) -> AllocationPlan | None:
    factors, pivots = call.args[:2]
    batch = factors.shape[:-2]
    if not call.outputs or call.outputs[0].shape[:-2] != batch or pivots.shape[:-1] != batch:
        return None
    is_dense = factors.mT.is_contiguous() and pivots.is_contiguous()
    return (*allocate_outputs(call), *_solve(call)) if is_dense else None


def _solve_ex(call: OpCall) -> AllocationPlan | None:
    """Plans ``linalg.solve``, which solves vectors in a copy."""
    matrix: torch.Tensor = call.args[0]
    solution = call.outputs[0]
    is_vector = solution.dim() < matrix.dim()
    if not solution.numel() or solution.shape[: matrix.dim() - 2] != matrix.shape[:-2]:
        return None
    copied = dense_bytes(solution) if is_vector else 0
    solving = temporary("solutions in columns", copied, _solve(call))
    return (*allocate_outputs(call), *_factorize(call), *solving)


def _inv_ex(call: OpCall) -> AllocationPlan | None:
    """Plans the inverse: a copy is factorized, and the identity matrices are solved for."""
    matrix: torch.Tensor = call.args[0]
    pivots = prod(matrix.shape[:-1]) * _INT
    steps = temporary("pivots", pivots, _factorize(call), _solve(call))
    return (*allocate_outputs(call), *temporary("factors", dense_bytes(matrix), steps))


def _parity(call: OpCall, after: AllocationPlan = ()) -> AllocationPlan:
    """Plans the number of exchanged rows: of pivots that differ from the rows' own numbers.

    The numbers of exchanged rows are alive around ``after``.
    """
    *batch, rows, _ = call.args[0].shape
    pivots = prod(batch) * rows
    counted = temporary("differ as integers", pivots * _INDEX)
    return (
        Temporary("rows", rows * _INT),
        Temporary("differ", pivots),
        *temporary(
            "exchanged rows",
            prod(batch) * _INDEX,
            (*counted, Free("differ"), Free("rows"), *after),
        ),
    )


def _det(call: OpCall) -> AllocationPlan | None:
    matrix: torch.Tensor = call.args[0]
    count = prod(matrix.shape[:-2])
    product = temporary("product", count * matrix.dtype.itemsize, _parity(call))
    errors = temporary("numbers of errors", count * _INT, _factorize(call), product)
    return (*allocate_outputs(call), *errors)


def _slogdet(call: OpCall) -> AllocationPlan | None:
    matrix: torch.Tensor = call.args[0]
    count, diagonal = prod(matrix.shape[:-2]), prod(matrix.shape[:-1])
    itemsize, real = matrix.dtype.itemsize, matrix.real.dtype.itemsize
    signs = temporary("signs", diagonal * itemsize, temporary("product", count * itemsize))
    logarithms = temporary("logarithms", diagonal * itemsize)
    if matrix.is_complex():
        logarithms = temporary("real logarithms", diagonal * real, logarithms)
    steps = (*_factorize(call), *_parity(call, signs), *logarithms)
    return (*allocate_outputs(call), *temporary("numbers of errors", count * _INT, steps))


def _cholesky_ex(call: OpCall) -> AllocationPlan | None:
    return (*allocate_outputs(call), *_places(call, "places of matrices"))


def _or_empty(rule: Rule, call: OpCall) -> AllocationPlan | None:
    """Plans a call by a rule, or the outputs alone if the matrices have no elements."""
    return rule(call) if call.args[0].numel() else only_empty(call)


def _lu_solve_or_empty(call: OpCall) -> AllocationPlan | None:
    """Plans a solution, or nothing if it has no elements."""
    empty = call.outputs and not call.outputs[0].numel()
    return allocate_outputs(call) if empty else _of_batch(_lu_solve, call, by="getrf")


def _eigenvalues(call: OpCall) -> AllocationPlan | None:
    """Plans checks of matrices without elements, and of the numbers of their errors."""
    matrix: torch.Tensor = call.args[0]
    if matrix.numel():
        return _by_library("cuSOLVER", call)
    if not prod(matrix.shape[:-2]):
        return None
    checked = temporary("any error", 1)
    if prod(matrix.shape[:-2]) == 1:
        checked = temporary("error", 1, checked)
    errors = prod(matrix.shape[:-2]) * _INT
    return (
        *temporary("finite", 1),
        *allocate_outputs(call),
        *temporary("numbers of errors", errors, temporary("no error", 1), checked),
    )


def _by_library(name: str, call: OpCall) -> AllocationPlan:
    """Plans a call that the library of that name takes unknown scratch for."""
    return (*allocate_outputs(call), Unplanned(f"{name} {_GPU}"))


def _small(steps: Rule, by: str = "getrf") -> Rule:
    return partial(_or_empty, partial(_of_batch, steps, by=by))


_by_solver: Final = partial(_by_library, "cuSOLVER")
_SOLVER: Final = ("_linalg_eigh", "_linalg_svd", "linalg_ldl_factor_ex")
_REFLECTIONS: Final = ("linalg_qr", "geqrf")  # cuSOLVER is asked about empty batches too
_TRANSFORMS: Final = ("_fft_c2c", "_fft_c2r", "_fft_r2c")

RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._linalg_det.default": partial(_of_batch, _det, by="getrf"),
        "aten._linalg_slogdet.default": partial(_of_batch, _slogdet, by="getrf"),
        "aten._linalg_solve_ex.default": _small(_solve_ex),
        "aten.linalg_eig.default": _eigenvalues,
        "aten.linalg_cholesky_ex.default": _small(_cholesky_ex, "potrf"),
        "aten.linalg_inv_ex.default": _small(_inv_ex),
        "aten.linalg_lu_factor_ex.default": _small(_lu_factor_ex),
        "aten.linalg_lu_solve.default": _lu_solve_or_empty,
        **{f"aten.{name}.default": partial(_or_empty, _by_solver) for name in _SOLVER},
        **{f"aten.{name}.default": _by_solver for name in _REFLECTIONS},
        **{f"aten.{name}.default": partial(_by_library, "cuFFT") for name in _TRANSFORMS},
    }
)
