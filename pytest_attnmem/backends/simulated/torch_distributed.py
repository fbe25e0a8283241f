"""What ``torch.distributed`` does otherwise beside a simulated device.

A build for the host has no NCCL, so PyTorch's fake process group takes its name. DTensor asks if
PyTorch traces a program, and takes another branch if so: a simulated program is not traced.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import timedelta
from functools import partial, wraps
from importlib import import_module
from io import BytesIO
from types import ModuleType
from typing import Any, Final

import torch
from torch import distributed as dist

from ..import_watch import after_import
from ..ranks.fake_group import fake_in_place_of
from ..ranks.lone_rank import HOST, is_lone
from .fake_mode import SimulatedFakeMode
from .fake_tensor import SimulatedTensor
from .patched import Patches
from .program_errors import at

_NCCL: Final = "nccl"
_NCCL_VERSION: Final = (2, 29, 7)  # that of PyTorch 2.13 for CUDA
_SHOWN: Final = "_attnmem_simulated_device"
_KEPT: Final = "_attnmem_simulated"
_C10D: Final = "torch.distributed.distributed_c10d"
_PROPAGATION: Final = "torch.distributed.tensor._sharding_prop"
#: The modules that ask if PyTorch traces.
_ASKING: Final = (
    "torch.distributed._functional_collectives",
    "torch.distributed.tensor._decompositions",
    "torch.distributed.tensor._collective_utils",
    "torch.distributed.tensor._dispatch",
    "torch.distributed.tensor._redistribute",
    _PROPAGATION,
)
#: Modules of PyTorch whose code reads the memory of parameters, or needs a device in C++.
_READING: Final = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
)
_mode = torch._C._get_dispatch_mode
_FAKE_KEY: Final = torch._C._TorchDispatchModeKey.FAKE


def follow() -> None:
    """Has PyTorch run simulated programs as on a device, as soon as they import its modules."""
    after_import(_C10D, _without_nccl)
    for name, wrapper in _READING:
        after_import(name, partial(_refuse, wrapper))
    for name in _ASKING:
        after_import(name, _not_tracing)
    after_import(_PROPAGATION, _propagate_apart)


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


def _simulated_mode() -> SimulatedFakeMode | None:
    mode = _mode(_FAKE_KEY)
    return mode if isinstance(mode, SimulatedFakeMode) else None


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


def _refuse(name: str, module: ModuleType) -> None:
    """Has a wrapper of modules say that it cannot be simulated."""
    wrapper: Any = getattr(module, name)
    original = wrapper.__init__
    if hasattr(original, _KEPT):
        return

    @wraps(original)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        for parameter in module.parameters():
            if type(parameter) is SimulatedTensor:
                observer = vars(parameter)["fake_mode"].observer
                raise observer.refused(
                    f"{name} is not simulated{at()}; use fully_shard, or run with"
                    " --attnmem-backend null:H100"
                )
        original(self, module, *args, **kwargs)

    setattr(__init__, _KEPT, True)
    wrapper.__init__ = __init__


def _not_tracing(module: ModuleType) -> None:
    original: Any = module._are_we_tracing
    if hasattr(original, _KEPT):
        return

    def are_we_tracing() -> bool:
        return _simulated_mode() is None and bool(original())

    setattr(are_we_tracing, _KEPT, True)
    module._are_we_tracing = are_we_tracing  # type: ignore[attr-defined]


def _propagate_apart(module: ModuleType) -> None:
    """Has DTensor find the shapes of whole tensors without their memory."""
    propagator: Any = module.ShardingPropagator
    name = "_propagate_tensor_meta_non_cached"
    original = getattr(propagator, name)
    if hasattr(original, _KEPT):
        return

    def propagate(self: Any, op_schema: Any) -> Any:
        mode = _simulated_mode()
        with nullcontext() if mode is None else mode.unobserved():
            return original(self, op_schema)

    setattr(propagate, _KEPT, True)
    setattr(propagator, name, propagate)
