"""What ``torch.distributed`` does otherwise beside a simulated device.

A build for the host has no NCCL, so PyTorch's fake process group takes its name, and no clock of
CUDA's, which only the log of DistributedDataParallel reads.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import wraps
from importlib import import_module
from io import BytesIO
from types import ModuleType
from typing import Any, Final

import torch
from torch import distributed as dist

from ..import_watch import after_import
from ..ranks.fake_group import fake_in_place_of
from ..ranks.lone_rank import HOST, is_lone
from .patched import Patches

_NCCL: Final = "nccl"
_NCCL_VERSION: Final = (2, 29, 7)  # that of PyTorch 2.13 for CUDA
_SHOWN: Final = "_attnmem_simulated_device"
_KEPT: Final = "_attnmem_simulated"
_C10D: Final = "torch.distributed.distributed_c10d"


def follow() -> None:
    """Has PyTorch take the fake group for NCCL's, as soon as it is imported."""
    after_import(_C10D, _without_nccl)


def patches() -> Patches:
    """Returns the replacements for a program that sees the device, by owner and name."""
    if not dist.is_available():
        return {}
    c10d: Any = import_module(_C10D)
    found: dict[tuple[Any, str], Any] = {
        **{(owner, "is_nccl_available"): lambda: True for owner in (c10d, dist)},
        **{
            (owner, "init_process_group"): _without_device(c10d.init_process_group)
            for owner in (c10d, dist)
        },
        (c10d, "_object_to_tensor"): _object_to_tensor,
        (c10d, _SHOWN): True,
        (c10d.Backend, "backend_type_map"): _types(c10d),
        (torch._C._distributed_c10d.Logger, "set_runtime_stats_and_log"): lambda logger: None,
    }
    if not hasattr(torch._C, "_nccl_version"):  # a build for the host
        found[torch.cuda.nccl, "version"] = lambda: _NCCL_VERSION
        found[c10d, "default_pg_nccl_timeout"] = timedelta(minutes=10)
    return found


def _types(c10d: Any) -> dict[str, Any]:
    """Returns the types of backends: those that the fake group takes the place of have its type."""
    fakes = (_NCCL, HOST) if is_lone(c10d) else (_NCCL,)
    custom = c10d.ProcessGroup.BackendType.CUSTOM
    return {**c10d.Backend.backend_type_map, **dict.fromkeys(fakes, custom)}


def _without_device(original: Any) -> Any:
    """Returns ``init_process_group`` for groups that are not connected, nor split from another."""

    @wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return original(*args, **kwargs)

    return init_process_group


def _object_to_tensor(
    obj: Any, device: Any, group: Any, weights_only: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the pickled object and its size; PyTorch gives a tensor the memory of a storage."""
    c10d: Any = sys.modules[_C10D]
    file = BytesIO()
    if weights_only:
        torch.save(obj, file)
    else:
        c10d._pickler(file).dump(obj)
    content = torch.tensor([*file.getvalue()], dtype=torch.uint8, device="cpu").to(device)
    return content, torch.tensor([content.numel()], dtype=torch.int64, device="cpu").to(device)


def _without_nccl(module: ModuleType) -> None:
    if not hasattr(module, _KEPT):
        setattr(module, _KEPT, True)
        fake_in_place_of(_NCCL, module, lambda: getattr(module, _SHOWN, False))
