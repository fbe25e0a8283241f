"""Copies between the host and the device, of any layout and dtype.

A copy in one piece needs equal dtypes and elements in the same order, without gaps. Another copy
goes through contiguous tensors of one dtype (``copy_kernel_cuda`` of native/cuda/Copy.cu).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Final

import torch

from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import allocate_outputs, dense_bytes, temporary
from .strides import dense_without_overlap, is_contiguous, kept_strides

_CPU: Final = "cpu"


def _copied_into(call: OpCall) -> AllocationPlan:
    """Plans ``copy_``."""
    target, source = call.args[:2]
    plan = allocate_outputs(call)
    if target.device.type == source.device.type:
        return plan
    to_host = target.device.type == _CPU
    return _through(call, source, target.stride(), target.shape, target.dtype, to_host, plan)


def _moved(call: OpCall) -> AllocationPlan:
    """Plans ``to`` of a device."""
    source: torch.Tensor = call.args[0]
    device, plan = argument(call, "device"), allocate_outputs(call)
    if device is None or device.type == source.device.type:
        return plan
    to_host = device.type == _CPU
    strides = _host_strides(call, source) if to_host else call.outputs[0].stride()
    dtype = argument(call, "dtype") or source.dtype
    return _through(call, source, strides, source.shape, dtype, to_host, plan)


def _through(
    call: OpCall,
    source: torch.Tensor,
    strides: Sequence[int],
    shape: Sequence[int],
    dtype: torch.dtype,
    to_host: bool,
    plan: AllocationPlan,
) -> AllocationPlan:
    """Plans the contiguous tensors on the device, after the tensor that ``plan`` makes.

    The host converts the dtype, or the device if the program does not wait for the copy.
    """
    count = prod(shape)
    same = source.dtype == dtype
    if not count or (same and _is_one_piece(source, strides, shape)):
        return plan
    on_device = bool(argument(call, "non_blocking"))
    if to_host:
        as_is = source.shape == shape and source.is_contiguous()
        if not on_device or same:
            return (*plan, *temporary("contiguous", 0 if as_is else count * source.itemsize))
        cast = dense_bytes(source, dtype)
        ordered = as_is or (
            source.shape == shape and is_contiguous(shape, kept_strides(shape, source.stride()))
        )
        copy = temporary("contiguous", 0 if ordered else count * dtype.itemsize)
        return (*plan, *temporary("cast", cast, copy))
    in_place = is_contiguous(shape, strides)
    if on_device and not same:
        return (*plan, *temporary("contiguous", count * source.itemsize))
    return (*plan, *temporary("contiguous", 0 if in_place else count * dtype.itemsize))


def _is_one_piece(source: torch.Tensor, strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Returns True if both have the same elements in the same order, without gaps."""
    if prod(shape) == 1:
        return True
    if tuple(source.shape) != tuple(shape) or not dense_without_overlap(shape, strides):
        return False
    steps = zip(shape, source.stride(), strides, strict=True)
    return all(size == 1 or own == other for size, own, other in steps)


def _host_strides(call: OpCall, source: torch.Tensor) -> tuple[int, ...]:
    wanted = argument(call, "memory_format")
    if wanted in (None, torch.preserve_format):
        return kept_strides(source.shape, source.stride())
    return torch.empty(source.shape, device="meta", memory_format=wanted).stride()


TAKES_COMPLEX: Final = True
RULES: Final = MappingProxyType[str, Rule](
    {"aten._to_copy.default": _moved, "aten.copy_.default": _copied_into}
)
