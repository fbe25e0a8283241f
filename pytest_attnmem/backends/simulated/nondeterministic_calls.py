"""Calls without a deterministic algorithm: CUDA's kernels raise, and those for ``meta`` do not.

The operators were run on the null device under ``torch.use_deterministic_algorithms``. A kernel may
have allocated before it raises, so the memory of a program that goes on is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch
from torch._prims_common import alert_not_deterministic

from .deterministic_ops import algorithms
from .overlaps import Check

_aten = torch.ops.aten
_Args = tuple[Any, ...]
_MAX_OF_BAGS: Final = 2


def check_of_algorithms(func: Any) -> Check | None:
    """Returns the check that an operator is deterministic, or None if it always is.

    The check raises PyTorch's error, or warns as PyTorch does with ``warn_only=True``.
    """
    found = _CALLERS.get(func)
    return None if found is None else partial(_check, str(func), *found)


def _check(
    name: str,
    caller: str,
    concerns: Callable[[_Args, Mapping[str, Any]], bool],
    args: _Args,
    kwargs: Mapping[str, Any],
    refused: Callable[[str], Exception],
) -> None:
    on_device = any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in args)
    if not (algorithms() and on_device and concerns(args, kwargs)):
        return
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        refused(f"{name} has no deterministic algorithm on CUDA, and fails")
    alert_not_deterministic(caller)


def _always(_: _Args, __: Mapping[str, Any]) -> bool:
    return True


def _puts(args: _Args, kwargs: Mapping[str, Any]) -> bool:
    """Returns True, unless the kernel for ``meta`` warns itself."""
    adds = args[3] if len(args) > 3 else kwargs.get("accumulate")
    return bool(adds) or not torch.is_deterministic_algorithms_warn_only_enabled()


def _weighs(args: _Args, kwargs: Mapping[str, Any]) -> bool:
    return (args[1] if len(args) > 1 else kwargs.get("weights")) is not None


def _has_reduction(args: _Args, _: Mapping[str, Any]) -> bool:
    return bool(args[3])


def _multiplies(args: _Args, _: Mapping[str, Any]) -> bool:
    return bool(args[4] == "prod")


def _takes_largest(at: int, args: _Args, _: Mapping[str, Any]) -> bool:
    return bool(args[at] == _MAX_OF_BAGS)


#: The kernels' names in the error, by operator.
_NAMED: Final[Mapping[Any, str]] = MappingProxyType(
    {
        _aten.index_reduce.default: "index_reduce_cuda",
        _aten.index_reduce_.default: "index_reduce_cuda",
        _aten._adaptive_avg_pool2d_backward.default: "adaptive_avg_pool2d_backward_cuda",
        _aten._adaptive_avg_pool3d_backward.default: "adaptive_avg_pool3d_backward_cuda",
        **{
            getattr(_aten, name).default: f"{name}_cuda"
            for name in (
                *("adaptive_max_pool2d_backward", "avg_pool3d_backward"),
                *("fractional_max_pool2d_backward", "fractional_max_pool3d_backward"),
                *("grid_sampler_2d_backward", "grid_sampler_3d_backward"),
                *("max_pool3d_with_indices_backward", "replication_pad1d_backward"),
                *("replication_pad2d_backward", "replication_pad3d_backward"),
            )
        },
        **{
            getattr(_aten, f"{name}_backward").default: (
                f"{name.removeprefix('_')}_backward_out_cuda"
            )
            for name in (
                *("reflection_pad1d", "reflection_pad3d", "upsample_linear1d"),
                *("upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"),
                *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
            )
        },
        _aten._ctc_loss_backward.default: "ctc_loss_backward_gpu",
        _aten._ctc_loss_backward.Tensor: "ctc_loss_backward_gpu",
    }
)
_CALLERS: Final[Mapping[Any, tuple[str, Callable[..., bool]]]] = MappingProxyType(
    {
        **{op: (caller, _always) for op, caller in _NAMED.items()},
        _aten.put.default: ("put_", _puts),
        _aten.put_.default: ("put_", _puts),
        _aten.bincount.default: ("_bincount_cuda", _weighs),
        _aten.nll_loss2d_forward.default: ("nll_loss2d_forward_out_cuda_template", _has_reduction),
        _aten.scatter_reduce.two: ("scatter_reduce_cuda_prod_", _multiplies),
        _aten.scatter_reduce_.two: ("scatter_reduce_cuda_prod_", _multiplies),
        _aten._embedding_bag_backward.default: (
            "embedding_bag_backward_cuda_max",
            partial(_takes_largest, 8),
        ),
        _aten._embedding_bag_dense_backward.default: (
            "embedding_bag_backward_cuda_max",
            partial(_takes_largest, 7),
        ),
    }
)
