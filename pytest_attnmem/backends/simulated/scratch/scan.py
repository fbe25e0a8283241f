"""Rules for cumulative sums, products and extrema (aten/src/ATen/native/cuda/ScanUtils.cuh)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Rule
from .cub import scan_storages
from .plan_steps import allocate_outputs, temporary
from .tensor_bytes import HALVES, copy_bytes, dense_bytes, layout, row_stride, wrap_dim

SCANNED: Final = (*HALVES, torch.float32, torch.float64, torch.int32, torch.int64)


def _scan(call: OpCall) -> AllocationPlan | None:
    """Plans a cast and a contiguous copy of the input; CUB scans a single row."""
    x: torch.Tensor = call.args[0]
    dtype = _dtype(call, x)
    if dtype not in SCANNED or not _plain_target(call):
        return None
    if x.numel() == 0 or x.dim() == 0:
        return allocate_outputs(call)
    cast = 0 if x.dtype == dtype else dense_bytes(x, dtype)
    shape, strides, _ = layout(x, dtype if cast else None)
    copy = 0 if row_stride(shape, strides) == 1 else dense_bytes(x, dtype)
    single = x.numel() == x.shape[wrap_dim(call.args[1], x.dim())]
    ordered = call.deterministic and dtype.is_floating_point and "cumsum" in call.op
    if single and (ordered or call.profile.kernels is None):
        return None
    scans: AllocationPlan = ()
    if single:
        kinds = scan_storages(x.numel(), dtype.itemsize, whole=dtype not in HALVES)
        for index, nbytes in enumerate(kinds):
            storage = temporary("scan", nbytes)
            scans += temporary("first of the rest", dtype.itemsize, storage) if index else storage
    target = call.kwargs.get("out")
    gaps = 0 if target is None or target.is_contiguous() else dense_bytes(target)
    copies = temporary("without gaps", gaps, temporary("contiguous", copy, scans))
    return (*allocate_outputs(call), *temporary("cast", cast, copies))


def _dtype(call: OpCall, x: torch.Tensor) -> torch.dtype:
    asked, target = argument(call, "dtype"), call.kwargs.get("out")
    if isinstance(asked, torch.dtype):
        return asked
    if target is not None:
        return target.dtype  # type: ignore[no-any-return]
    floats = x.dtype.is_floating_point or x.dtype.is_complex or not call.outputs
    return x.dtype if floats else torch.int64


def _plain_target(call: OpCall) -> bool:
    return bool(call.outputs or "out" in call.kwargs or call.args[0].is_contiguous())


def _extremum(call: OpCall) -> AllocationPlan | None:
    """Plans ``cummax`` and ``cummin``, with a contiguous copy of the input."""
    x: torch.Tensor = call.args[0]
    return (
        (*allocate_outputs(call), *temporary("contiguous", copy_bytes(x)))
        if x.dim()
        else allocate_outputs(call)
    )


RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": _scan for name in ("cumsum", "cumprod", "logcumsumexp")},
        **{f"aten.{name}": _scan for name in ("cumsum_", "cumprod_", "cumsum.out", "cumprod.out")},
        "aten.logcumsumexp.out": _scan,
        "aten.cummax": _extremum,
        "aten.cummin": _extremum,
    }
)
