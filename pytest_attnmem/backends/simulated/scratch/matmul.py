"""Rules for matrix products: copies of operands that cuBLAS cannot read, and its workspace.

Source: aten/src/ATen/native/cuda/Blas.cpp and cuBlasCommonArgs.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch

from .op_plan import AllocationPlan, Free, OpCall, Rule, Temporary, Workspace, argument
from .plan_parts import CUBLAS, CUBLASLT, HALVES, allocate_outputs, dense_bytes
from .strides import dense_without_overlap

#: The major compute capabilities with the kernel, see ``GroupedBlas.cpp``.
_HOPPER, _BLACKWELL = 9, 10
#: The bytes of the descriptors of tensors for each multiprocessor of Hopper.
_ON_HOPPER: Final = 4 * 128
#: The same on Blackwell, with 128 rows in a tile, and with 256.
_SMALL_TILES, _LARGE_TILES = 42 * 128, 46 * 128
#: Groups with as many rows or columns have small tiles.
_SMALL: Final = 128
#: The bytes of a group: a pointer to each matrix, three sizes, and three strides.
_POINTERS, _SIZES_AND_STRIDES = 3 * 8, 3 * 4 + 3 * 8


def has_kernel(left: Any, right: Any, dtype: torch.dtype | None, major: int) -> bool:
    """Returns True if a device of that major compute capability has one kernel for all groups."""
    halves = left.dtype == right.dtype == torch.bfloat16 == (dtype or torch.bfloat16)
    return halves and major in (_HOPPER, _BLACKWELL)


def _grouped_mm(call: OpCall) -> AllocationPlan | None:
    """Plans [M, K] or [G, M, K] times [K, N] or [G, K, N]."""
    left, right = call.args[:2]
    major = call.profile.compute_capability[0]
    if not has_kernel(left, right, argument(call, "out_dtype"), major):
        return None
    rows, columns = left.shape[-2], right.shape[-1]
    ends = argument(call, "offs")
    groups = left.shape[0] if ends is None or left.dim() == 3 else ends.shape[0]
    if right.dim() == 3:
        rows = rows // groups if left.dim() == 2 else rows
    elif left.dim() == 3:
        columns //= groups
    each = _ON_HOPPER
    if major == _BLACKWELL:
        each = _SMALL_TILES if rows <= _SMALL or columns <= _SMALL else _LARGE_TILES
    pairs = -(-groups // 2)  # the pointers of a matrix are a multiple of 16 bytes
    return (
        *allocate_outputs(call),
        Temporary("arguments of groups", 2 * pairs * _POINTERS + groups * _SIZES_AND_STRIDES),
        Temporary("workspace of groups", each * call.profile.multiprocessors),
    )


def _matrix_copy(matrix: torch.Tensor) -> int:
    """Returns the bytes of the copy of a matrix whose strides cuBLAS cannot read.

    Source: ``prepare_matrix_for_cublas``.
    """
    dense = dense_without_overlap(matrix.shape, matrix.stride())
    return 0 if dense or _is_readable(matrix) else dense_bytes(matrix)


def _is_readable(matrix: torch.Tensor) -> bool:
    """Returns True if rows or columns have no gaps inside, and do not overlap."""
    (rows, columns), (down, right) = matrix.shape, matrix.stride()
    return (down == 1 and right >= max(1, rows)) or (right == 1 and down >= max(1, columns))


def _product(
    call: OpCall, left: torch.Tensor, right: torch.Tensor, workspace: Workspace = CUBLAS
) -> AllocationPlan:
    """Plans a matrix product; the layout of the result decides the order of the operands."""
    result = _result(call)
    if result.numel() == 0 or left.numel() == 0:
        return allocate_outputs(call)
    row_major = result.is_contiguous() or not dense_without_overlap(result.shape, result.stride())
    if not result.is_contiguous() and row_major:
        row_major = not (result.stride(0) == 1 and result.stride(1) >= max(1, result.shape[0]))
    operands = (right, left) if row_major else (left, right)
    copies = _copies(*map(_matrix_copy, (result, *operands)))
    return (*allocate_outputs(call), *copies, workspace, Free("result"))


def _copies(result: int, first: int, second: int) -> AllocationPlan:
    """Plans the copies of so many bytes, which stay until the end."""
    sizes = {"result": result, "first operand": first, "second operand": second}
    return tuple(Temporary(name, nbytes) for name, nbytes in sizes.items() if nbytes)


def _addmm(call: OpCall, left: torch.Tensor, right: torch.Tensor) -> AllocationPlan:
    bias, result = call.args[0], _result(call)
    fused = _adds_vector(call, bias, result) or _adds_matrix(call, bias, result)
    return _with_bias(call, left, right, fused)


def _addmm_activation(call: OpCall, left: torch.Tensor, right: torch.Tensor) -> AllocationPlan:
    bias, one = call.args[0], call.kwargs.get("beta", 1) == 1
    fused = one and (bias.dim() == 2 or _adds_vector(call, bias, _result(call)))
    return _with_bias(call, left, right, fused)


def _with_bias(
    call: OpCall, left: torch.Tensor, right: torch.Tensor, fused: bool
) -> AllocationPlan:
    """Plans a product to which cuBLASLt, if ``fused``, adds the bias itself."""
    fused = fused and left.shape[1] > 1 and right.shape[1] > 1
    return _product(call, left, right, CUBLASLT if fused else CUBLAS)


def _adds_vector(call: OpCall, bias: torch.Tensor, result: torch.Tensor) -> bool:
    """Returns True if cuBLASLt can add the bias, a row, to each row of the result.

    Source: ``isInputCompliesAddmmCudaLt``.
    """
    one = call.kwargs.get("beta", 1) == 1
    row = bias.is_contiguous() and bias.numel() == result.shape[1] == bias.shape[-1]
    return bool(one and row and bias is not result and result.is_contiguous())


def _adds_matrix(call: OpCall, bias: torch.Tensor, result: torch.Tensor) -> bool:
    """Returns True if cuBLASLt can add the bias, a matrix of half precision, to the result."""
    plain = bias.dtype in HALVES and "out_dtype" not in call.kwargs and bias is not result
    if not plain or bias.shape != result.shape or result.shape[0] == 1:
        return False
    rows = bias.stride(1) == 1 and bias.stride(0) >= bias.shape[1]
    return bool(rows and result.stride(1) == 1 and call.kwargs.get("beta", 1) != 0)


def _result(call: OpCall) -> torch.Tensor:
    """Returns the result: a new tensor, ``out``, or the first argument of an in-place operator."""
    if "out" in call.kwargs:
        out: torch.Tensor = call.kwargs["out"]
        return out
    result: torch.Tensor = call.outputs[0] if call.outputs else call.args[0]
    return result


def _batch_copy(batch: torch.Tensor, row_major: bool, rows: int, columns: int) -> int:
    """Returns the bytes of the copy of a batch (``prepare_batch_matrix_for_cublas``)."""
    strides = tuple(batch.stride())
    fast, leading = (2, 1) if row_major else (1, 2)
    if strides[fast] == 1 and strides[leading] >= max(1, rows):
        return 0
    if strides[leading] == 1 and strides[fast] >= max(1, columns):
        return 0
    usable = batch.is_contiguous() and strides[1] != 0 and strides[2] != 0
    return 0 if usable else dense_bytes(batch)


def _batches(call: OpCall, left: torch.Tensor, right: torch.Tensor) -> AllocationPlan:
    """Plans a batch of matrix products."""
    result = _result(call)
    if result.numel() == 0 or left.shape[2] == 0:
        return allocate_outputs(call)
    shape, strides = result.shape, result.stride()
    copy = 0
    if strides[1] == 1 and (shape[2] == 1 or strides[2] >= max(1, shape[1])):
        row_major = False
    elif strides[2] == 1 and (shape[1] == 1 or strides[1] >= max(1, shape[2])):
        row_major = True
    else:
        row_major, copy = False, dense_bytes(result)
    leading = 1 if row_major else 2
    m, n = (shape[2], shape[1]) if row_major else (shape[1], shape[2])
    first, second = (right, left) if row_major else (left, right)
    k = first.shape[leading]
    operands = _batch_copy(first, row_major, m, k), _batch_copy(second, row_major, k, n)
    return (*allocate_outputs(call), *_copies(copy, *operands), CUBLAS)


def _bmm(call: OpCall, left: torch.Tensor, right: torch.Tensor) -> AllocationPlan:
    """Plans a batch of products; outer products without ``out=`` do not use cuBLAS."""
    if left.shape[2] == 1 and "out" not in call.kwargs and _result(call).is_contiguous():
        return allocate_outputs(call)
    return _batches(call, left, right)


def _vector_product(call: OpCall, matrix: torch.Tensor, vector: torch.Tensor) -> AllocationPlan:
    """Plans a matrix-vector product, with copies of operands that gemv cannot read."""
    if _result(call).numel() == 0 or matrix.numel() == 0:
        return allocate_outputs(call)
    of_matrix = 0 if _is_readable(matrix) else dense_bytes(matrix)
    of_vector = dense_bytes(vector) if vector.stride(0) == 0 else 0
    copies = (Temporary("vector", of_vector), Temporary("matrix", of_matrix))
    return (*allocate_outputs(call), *(copy for copy in copies if copy.nbytes), CUBLAS)


def _dot(call: OpCall, _left: torch.Tensor, _right: torch.Tensor) -> AllocationPlan:
    return (*allocate_outputs(call), CUBLAS)


_Product = Callable[[OpCall, torch.Tensor, torch.Tensor], AllocationPlan]


def _of_one_dtype(product: _Product) -> Rule:
    """Returns the rule for operands of one dtype, not of integers.

    CUDA refuses the others, and shapes do not.
    """

    def plan(call: OpCall) -> AllocationPlan | None:
        *_, left, right = (arg for arg in call.args if isinstance(arg, torch.Tensor))
        known = left.dtype == right.dtype and (left.is_floating_point() or left.is_complex())
        return product(call, left, right) if known else None

    return plan


_PRODUCTS: Final[Mapping[_Product, Sequence[str]]] = MappingProxyType(
    {
        _product: ("mm.default", "mm.out", "mm.dtype"),
        _addmm: ("addmm.default", "addmm.out", "addmm.dtype", "addmm_.default"),
        _addmm_activation: ("_addmm_activation.default",),
        _bmm: ("bmm.default", "bmm.out", "bmm.dtype"),
        _batches: ("baddbmm.default", "baddbmm.out", "baddbmm.dtype", "baddbmm_.default"),
        _vector_product: ("mv.default", "addmv.default", "addmv_.default"),
        _dot: ("dot.default", "vdot.default"),
    }
)
RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._grouped_mm.default": _grouped_mm,
        **{
            f"aten.{name}": _of_one_dtype(product)
            for product, names in _PRODUCTS.items()
            for name in names
        },
    }
)
