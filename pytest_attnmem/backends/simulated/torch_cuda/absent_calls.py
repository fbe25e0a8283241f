"""Functions of ``torch.cuda`` for which a simulated device has no answer: each is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, NoReturn

import torch

from ....errors import CannotSimulate
from ..program_errors import at
from ..scratch.workspaces import Workspaces

#: The functions of ``torch._C`` that they call, with the name by which a program calls them.
_CALLS: Final = MappingProxyType(
    {
        "_cuda_memoryStats": "memory.memory_stats",
        "_cuda_memorySnapshot": "memory._snapshot",
        "_cuda_record_memory_history": "memory._record_memory_history",
        "_cuda_record_memory_history_legacy": "memory._record_memory_history",
        "_cuda_hostMemoryStats": "host_memory_stats",
        "_cuda_resetAccumulatedHostMemoryStats": "reset_accumulated_host_memory_stats",
        "_cuda_resetPeakHostMemoryStats": "reset_peak_host_memory_stats",
        "_cuda_getCurrentBlasHandle": "current_blas_handle",
        "_cuda_getCurrentSolverHandle": "current_solver_handle",
        "_cuda_cudaCachingAllocator_raw_alloc": "caching_allocator_alloc",
        "_cuda_cudaCachingAllocator_raw_delete": "caching_allocator_delete",
        "_cuda_cudaCachingAllocator_enable": "caching_allocator_enable",
        "_cuda_cudaCachingAllocator_is_enabled": "caching_allocator_enable",
        "_cuda_changeCurrentAllocator": "memory.change_current_allocator",
        "_cuda_customAllocator": "memory.CUDAPluggableAllocator",
        "_cuda_getAllocator": "memory.change_current_allocator",
        "_cuda_canDeviceAccessPeer": "can_device_access_peer",
        "_cuda_getStreamFromExternal": "get_stream_from_external",
        "_cuda_tunableop_enable": "tunable.enable",
        "_cuda_jiterator_compile_and_launch_kernel": "jiterator",
        "_accelerator_setAllocatorSettings": "memory._set_allocator_settings",
    }
)
_CLEARING: Final = "_cuda_clearCublasWorkspaces"


def absent_calls(
    refused: Callable[[str], CannotSimulate], workspaces: Workspaces
) -> dict[tuple[Any, str], Any]:
    """Returns the functions that refuse, by owner and name.

    A build without CUDA lacks most of ``torch._C``'s: there one function answers for all of them,
    and for those that a newer PyTorch may add.
    """

    def absent(name: str, module: str = "torch.cuda.") -> Callable[..., NoReturn]:
        def call(*_: Any, **__: Any) -> NoReturn:
            raise refused(f"{module}{name}{at()} cannot be simulated")

        return call

    def only(value: Any, name: str, module: str = "torch.cuda.") -> Callable[..., None]:
        """Returns a setter that takes the value which is the default."""
        refuse = absent(name, module)
        return lambda given=value, *_: None if given == value else refuse()

    def size(name: str, function: str, nbytes: int) -> dict[str, Any]:
        """Returns the functions of the size of a library's workspace, which nobody changes."""
        setter = only(nbytes, name, "torch.backends.cuda.")
        return {
            f"_cuda_get{function}": lambda: nbytes,
            **{f"_cuda_{verb}{function}": setter for verb in ("set", "reset")},
        }

    def prefer(library: Any) -> None:
        if library not in (torch._C._BlasBackend.Default, torch._C._BlasBackend.Cublas):
            absent("preferred_blas_library", "torch.backends.cuda.")()

    lt = workspaces.cublaslt
    functions = {
        **{function: absent(name) for function, name in _CALLS.items()},
        _CLEARING: absent(_CLEARING, "torch._C."),
        # torch._dynamo.reset() imports a module that imports this.
        "_cuda_CUDAAllocator_AllocatorState": type("AllocatorState", (), {}),
        **size("cublas_workspace_size", "CublasWorkspaceSize", workspaces.cublas),
        **size(
            "cublaslt_workspace_size",
            "CublasLtWorkspaceSize",
            min(lt, workspaces.cublas) if workspaces.shared else lt,
        ),
        "_set_blas_preferred_backend": prefer,
        "_cuda_getMemoryFraction": lambda *_: 1.0,
        "_cuda_setMemoryFraction": only(1.0, "set_per_process_memory_fraction"),
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_set_sync_debug_mode": only(0, "set_sync_debug_mode"),
    }

    def lacked(name: str) -> Any:
        if name in functions:
            return functions[name]
        if name.startswith("_cuda_"):
            return absent(name, "torch._C.")
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'", name=name)

    return {
        **{(torch._C, name): one for name, one in functions.items() if name in vars(torch._C)},
        (torch._C, "__getattr__"): lacked,
        (torch.cuda.MemPool, "__new__"): absent("MemPool"),
        (torch.cuda, "graph_pool_handle"): absent("graph_pool_handle"),
    }
