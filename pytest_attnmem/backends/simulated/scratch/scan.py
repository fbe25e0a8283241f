"""Rules for cumulative sums, products and extrema (aten/src/ATen/native/cuda/ScanUtils.cuh)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from .cub import scan_storages
from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import (
    HALVES,
    allocate_outputs,
    dense_bytes,
    layout,
    row_stride,
    temporary,
    wrap_dim,
)

SCANNED: Final = (*HALVES, torch.float32, torch.float64, torch.int32, torch.int64)

#: Elements of a block in a deterministic scan; of those with more bytes than a float.
_BLOCK, _WIDE_BLOCK, _FLOAT = 8192, 4096, 4


def _scan(call: OpCall) -> AllocationPlan | None:
    """Plans a cast and a contiguous copy of the input; CUB scans a single row."""
    x: torch.Tensor = call.args[0]
    dtype = _dtype(call, x)
    plain = call.outputs or "out" in call.kwargs or x.is_contiguous()
    if dtype not in SCANNED or not plain:
        return None
    if x.numel() == 0 or x.dim() == 0:  # in place it is filled with a copy of itself
        return temporary("value", x.nbytes * ("_." in call.op), allocate_outputs(call))
    cast = 0 if x.dtype == dtype else dense_bytes(x, dtype)
    shape, strides, _ = layout(x, dtype if cast else None)
    copy = 0 if row_stride(shape, strides) == 1 else dense_bytes(x, dtype)
    single = x.numel() == x.shape[wrap_dim(call.args[1], x.dim())]
    scans: AllocationPlan = ()
    sums = call.op.startswith(("aten.cumsum.", "aten.cumsum_."))
    if single and sums and call.deterministic and dtype.is_floating_point:
        scans = _sums_of_blocks(call, x.numel(), dtype.itemsize)
    elif single and call.profile.kernels is None:
        return None
    elif single:
        kinds = scan_storages(x.numel(), dtype.itemsize, whole=dtype not in HALVES)
        for index, nbytes in enumerate(kinds):
            storage = temporary("scan", nbytes)
            scans += temporary("first of the rest", dtype.itemsize, storage) if index else storage
    target = call.kwargs.get("out")
    gaps = 0 if target is None or target.is_contiguous() else dense_bytes(target)
    copies = temporary("without gaps", gaps, temporary("contiguous", copy, scans))
    return (*allocate_outputs(call), *temporary("cast", cast, copies))


def _sums_of_blocks(call: OpCall, count: int, size: int) -> AllocationPlan:
    """Plans the sum of each block (``inclusive_deterministic_scan`` in aten/src/ATen/cuda/cub.cuh).

    A block of threads has 8 or 16 elements a thread, or more if the device has too few processors.
    """
    blocks = -(-count // (_WIDE_BLOCK if size > _FLOAT else _BLOCK))
    return temporary("sums of blocks", min(blocks, call.profile.multiprocessors) * size)


def _dtype(call: OpCall, x: torch.Tensor) -> torch.dtype:
    asked, target = argument(call, "dtype"), call.kwargs.get("out")
    if isinstance(asked, torch.dtype):
        return asked
    if target is not None:
        return target.dtype  # type: ignore[no-any-return]
    floats = x.dtype.is_floating_point or x.dtype.is_complex or not call.outputs
    return x.dtype if floats else torch.int64


RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": _scan for name in ("cumsum", "cumprod", "logcumsumexp")},
        **{f"aten.{name}": _scan for name in ("cumsum_", "cumprod_", "cumsum.out", "cumprod.out")},
        **{f"aten.{name}.out": _scan for name in ("logcumsumexp", "_logcumsumexp")},
    }
)
