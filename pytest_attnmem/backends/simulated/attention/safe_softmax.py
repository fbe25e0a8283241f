"""The rule for ``_safe_softmax``, which is zero in rows where all scores are masked.

Source: ``aten/src/ATen/native/transformers/attention.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ..scratch.op_plan import AllocationPlan, OpCall, Output, Rule, argument
from ..scratch.plan_parts import copy_bytes, dense_bytes, temporaries, temporary
from ..scratch.reduction_launch import ReductionKernel, blocks_plan
from ..scratch.strides import kept_strides
from ..scratch.tensor_iterator import reduction


def safe_softmax(call: OpCall) -> AllocationPlan:
    """Plans the softmax, the masks of infinite scores and of masked rows, and the zero."""
    scores: torch.Tensor = call.args[0]
    dim = int(argument(call, "dim")) % max(scores.dim(), 1)
    dtype = argument(call, "dtype") or scores.dtype
    widens = (scores.dtype, dtype) == (torch.float16, torch.float32)
    cast = 0 if widens or dtype == scores.dtype else dense_bytes(scores, dtype)
    softmax = temporary(
        "cast scores",
        cast,
        (Output(0),),
        temporary("contiguous scores", copy_bytes(scores) // scores.itemsize * dtype.itemsize),
    )
    strides = kept_strides(scores.shape, scores.stride())
    rows = reduction(tuple(scores.shape), strides, 1, [1], (dim,), True)
    masks = {
        "infinite": scores.numel(),
        "masked rows": scores.numel() // max(scores.shape[dim], 1),
    }
    found = blocks_plan(rows, ReductionKernel(1), call.profile)
    return (*softmax, *temporaries(masks, found, temporary("zero", dtype.itemsize)))


RULES: Final = MappingProxyType[str, Rule]({"aten._safe_softmax.default": safe_softmax})
