"""Rules for searches in sorted rows (native/cuda/Bucketization.cu, BucketizationUtils.h)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Rule, Temporary
from .plan_steps import allocate_outputs
from .tensor_bytes import copy_bytes, dense_bytes

if TYPE_CHECKING:
    from torch import Tensor


def _sorted_first(call: OpCall) -> AllocationPlan | None:
    """Plans ``searchsorted``."""
    return _search(call, call.args[1], call.args[0], argument(call, "sorter"))


def _sorted_last(call: OpCall) -> AllocationPlan | None:
    """Plans ``bucketize``."""
    return _search(call, call.args[0], call.args[1], None)


def _search(call: OpCall, values: Tensor, rows: Tensor, sorter: object) -> AllocationPlan | None:
    """Plans contiguous copies, and then copies in the common dtype.

    ``sorter`` checks are operators of their own, and its copy is not known.
    """
    if isinstance(sorter, torch.Tensor) or values.device != rows.device or not values.numel():
        return None if values.numel() else allocate_outputs(call)
    dtype = torch.result_type(rows, values)
    copies = tuple(
        Temporary(f"{name}, contiguous", copy_bytes(x))
        for name, x in (("values", values), ("rows", rows))
    )
    casts = tuple(
        Temporary(f"{name}, cast", 0 if x.dtype is dtype else dense_bytes(x, dtype))
        for name, x in (("values", values), ("rows", rows))
    )
    steps = tuple(step for step in (*copies, *casts) if step.nbytes)
    return (*allocate_outputs(call), *steps)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.searchsorted.Tensor": _sorted_first,
        "aten.bucketize.Tensor": _sorted_last,
    }
)
