"""CUDA as an accelerator of a PyTorch that has none: a build for the CPU, or no device is here.

PyTorch's C++ code asks two objects whether CUDA exists: a guard in c10's registry, and the hooks of
ATen. The guard becomes c10's own ``NoOpDeviceGuardImpl<CUDA>``, which does nothing. The hooks get a
copy of their table of functions, in which the first ones, those that every accelerator has
(``ATen/detail/AcceleratorHooksInterface.h``), are functions of libtorch that return 1 or 0. So no
machine code is made: pointers move between tables that are laid out by the Itanium ABI.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import torch

from ....errors import BackendUnavailable
from .tensors import TensorMaker

_Pointer = ctypes.c_void_p
_WORD: Final = ctypes.sizeof(_Pointer)
#: ``c10::DeviceType::CUDA``, and the number of types of devices that have a place in the registry.
_PLACE, _TYPES = 1, 22
#: More functions than the hooks have, those before the table's start included.
_COPIED: Final = 130
_REGISTRY: Final = "_ZN3c104impl26device_guard_impl_registryE"
_HOOKS: Final = "_ZN2at6detail12getCUDAHooksEv"
_CPU_ALLOCATOR: Final = "_ZN3c1015GetCPUAllocatorEv"
_OTHER_HOOKS: Final = "_ZN2at6detail11getXPUHooksEv"
#: The place of ``type()`` among a guard's functions, and of ``isBuilt()`` among the hooks': both
#: come after two destructors.
_TYPE = _IS_BUILT = 2
#: The functions of the hooks, from ``isBuilt`` on, and what each returns here, or what stands in
#: its place: pinned memory is memory of the host.
_ANSWERS: Final = (
    *(("isBuilt", 1), ("isAvailable", 1), ("hasPrimaryContext", 0), ("init", 0)),
    *(("deviceCount", 1), ("setCurrentDevice", 0), ("getCurrentDevice", 0)),
    *(("exchangeDevice", 0), ("maybeExchangeDevice", 0), ("isPinnedPtr", 0)),
    ("getPinnedMemoryAllocator", "GetCPUAllocator"),
)

#: What PyTorch asks whether this process was forked from one that used CUDA, as owner and name.
IN_BAD_FORK: Final[tuple[Any, str]] = (torch.cuda, "_is_in_bad_fork")


def make_cuda_accelerator() -> None:
    """Makes ``cuda`` the accelerator of this process, until it ends.

    Raises:
        BackendUnavailable: PyTorch's libraries are others than these.
    """
    try:
        libraries = Path(torch.__file__).parent / "lib"
        c10, cpu = (ctypes.CDLL(str(libraries / f"lib{name}.so")) for name in ("c10", "torch_cpu"))
        guard = _make_guard(c10)
        _replace_hooks(cpu, guard, _address(c10, _CPU_ALLOCATOR))
    except (OSError, ValueError, AttributeError) as error:
        raise BackendUnavailable(
            f"torch {torch.__version__} has no CUDA to take: {error}"
        ) from error
    if str(torch._C._accelerator_getAccelerator()) != "cuda":
        raise BackendUnavailable(f"torch {torch.__version__} did not take CUDA for an accelerator")
    _use_first()


def _use_first() -> None:
    """Makes a tensor: C++ code asks ``torch.cuda`` at the first one whether it can start."""
    before = torch.cuda._initialized
    torch.cuda._initialized = True
    try:
        TensorMaker().ghost((1,), (1,), torch.uint8)
    finally:
        torch.cuda._initialized = before


def _make_guard(c10: ctypes.CDLL) -> int:
    """Puts c10's guard that does nothing in CUDA's place; returns its address.

    PyTorch puts it there instead of a guard that says it has no devices, so one such stands there
    first: the place may be empty, or a ``FakeTensorMode`` may have changed its guard already.
    """
    registry = (_Pointer * _TYPES).in_dll(c10, _REGISTRY)
    no_devices = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: 0)
    table = (_Pointer * 64)(*[ctypes.cast(no_devices, _Pointer).value] * 64)
    without_devices = (_Pointer * 1)(ctypes.addressof(table))
    before = registry[_PLACE] = ctypes.addressof(without_devices)
    torch._C._ensureCUDADeviceGuardSet()
    if registry[_PLACE] == before or not registry[_PLACE]:
        raise ValueError("its guard was not replaced")
    return int(registry[_PLACE] or 0)


def _replace_hooks(cpu: ctypes.CDLL, guard: int, allocator: int | None) -> None:
    """Has the hooks answer that there is one device, as long as the process runs."""
    hooks = _result_of(cpu, _HOOKS)
    before = _table(hooks)
    start = 2  # what stands before a table: an offset, and the type
    table = (_Pointer * _COPIED)()
    ctypes.memmove(table, before - start * _WORD, _COPIED * _WORD)
    returned: dict[object, int | None] = {
        "GetCPUAllocator": allocator,
        1: _function(guard, _TYPE),  # the number of CUDA's type
        0: _function(_result_of(cpu, _OTHER_HOOKS), _IS_BUILT),  # no build has both
    }
    for place, (_, answer) in enumerate(_ANSWERS):
        table[start + _IS_BUILT + place] = returned[answer]
    _Pointer.from_address(hooks).value = ctypes.addressof(table) + start * _WORD
    atexit.register(_put_back, hooks, before, table)


def _put_back(hooks: int, before: int, _kept: Any) -> None:
    _Pointer.from_address(hooks).value = before


def _result_of(library: ctypes.CDLL, name: str) -> int:
    function = getattr(library, name)
    function.restype = _Pointer
    return int(function())


def _address(library: ctypes.CDLL, name: str) -> int | None:
    return ctypes.cast(getattr(library, name), _Pointer).value


def _table(instance: int) -> int:
    return int(_Pointer.from_address(instance).value or 0)


def _function(instance: int, place: int) -> int | None:
    return _Pointer.from_address(_table(instance) + place * _WORD).value


def works_in_child() -> bool:
    """Returns True if a child process could take CUDA for its accelerator, and make a tensor."""
    if not sys.platform.startswith("linux"):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child lacks
        child = os.fork()
    if not child:
        try:
            setattr(*IN_BAD_FORK, lambda: False)  # it asks nothing of a driver
            make_cuda_accelerator()
            tensor = TensorMaker().ghost((2, 3), (3, 1), torch.float32)
            os._exit(not (tensor.is_cuda and tensor.device == torch.device("cuda", 0)))
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0
