"""The rule for products of groups in one kernel (cuda/GroupMM.cu of ATen, and CUTLASS).

The kernel is for bfloat16 on Hopper and Blackwell. It reads the ends of groups on the device, so
that its memory does not depend on them: a struct of arguments for each group, and a workspace for
each multiprocessor. Other calls are products in a loop: ``grouped_products`` runs them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Rule, Temporary
from .plan_steps import allocate_outputs

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


RULES: Final = MappingProxyType[str, Rule]({"aten._grouped_mm.default": _grouped_mm})
