"""CUDA as an accelerator of a PyTorch that has none: a build for the CPU, or no device is here.

PyTorch's C++ code asks two objects whether CUDA exists: a guard in c10's registry, and the hooks of
ATen. The guard becomes c10's own ``NoOpDeviceGuardImpl<CUDA>``, which does nothing. The hooks get a
copy of their table of functions, in which the first ones, those that every accelerator has
(``ATen/detail/AcceleratorHooksInterface.h``), are functions of libtorch that return 1 or 0. So no
machine code is made: pointers move between tables of functions, in the order of PyTorch's headers.
A process has one accelerator, so the hooks of MPS answer that it is not built.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch

from ....errors import BackendUnavailable
from .tensors import TensorMaker

_Pointer = ctypes.c_void_p
_WORD: Final = ctypes.sizeof(_Pointer)
#: ``c10::DeviceType::CUDA``, and the number of types of devices that have a place in the registry.
_PLACE, _TYPES = 1, 22
#: More functions than the hooks have, and what stands before a table: an offset, and the type.
_COPIED, _BEFORE = 130, 2


class Abi(NamedTuple):
    """The names of PyTorch's functions in its libraries, and the start of a table of functions."""

    library: str
    registry: str
    cpu_allocator: str
    hooks: str
    """With the places of a device's name, and of the length of ``get…Hooks``."""
    destructors: int
    """The places of the destructor, which come first."""

    def name_of_hooks(self, device: str) -> str:
        """Returns the name of the function that returns the hooks of a kind of device."""
        return self.hooks.format(device=device, length=len(f"get{device}Hooks"))


_ITANIUM: Final = Abi(
    library="lib{}.so",
    registry="_ZN3c104impl26device_guard_impl_registryE",
    cpu_allocator="_ZN3c1015GetCPUAllocatorEv",
    hooks="_ZN2at6detail{length}get{device}HooksEv",
    destructors=2,
)
#: By platform. Those of macOS and Windows are read in their wheels: ``make platforms``.
ABIS: Final = MappingProxyType(
    {
        "linux": _ITANIUM,
        "darwin": _ITANIUM._replace(library="lib{}.dylib"),
        "win32": Abi(
            library="{}.dll",
            registry="?device_guard_impl_registry@impl@c10@@3V?$array@U?$atomic@"
            "PEBUDeviceGuardImplInterface@impl@c10@@@std@@$0BF@@std@@A",
            cpu_allocator="?GetCPUAllocator@c10@@YAPEAUAllocator@1@XZ",
            hooks="?get{device}Hooks@detail@at@@YAAEBU{device}HooksInterface@2@XZ",
            destructors=1,
        ),
    }
)
#: The functions of the hooks that follow the destructor, and what each returns here, or what stands
#: in its place: pinned memory is memory of the host.
ANSWERS: Final = (
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
        Tables(ABIS[sys.platform]).replace()
    except (OSError, ValueError, AttributeError, KeyError) as error:
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


class Tables:
    """The tables of functions of PyTorch's libraries."""

    def __init__(self, abi: Abi) -> None:
        self._abi = abi
        folder = Path(torch.__file__).parent / "lib"
        self._c10, self._cpu = (
            ctypes.CDLL(str(folder / abi.library.format(name))) for name in ("c10", "torch_cpu")
        )

    def replace(self) -> None:
        """Puts the guard and the hooks of CUDA in their places."""
        allocator = ctypes.cast(getattr(self._c10, self._abi.cpu_allocator), _Pointer).value
        # The number of CUDA's type is 1, and no build has both CUDA and XPU.
        one, no = self.first_function(self.new_guard()), self.first_function(self.hooks("XPU"))
        returned: dict[object, int | None] = {1: one, 0: no, "GetCPUAllocator": allocator}
        self.answer("CUDA", [returned[answer] for _, answer in ANSWERS])
        self.answer("MPS", [no])

    def hooks(self, device: str) -> int:
        """Returns the address of the hooks of a kind of device."""
        function = getattr(self._cpu, self._abi.name_of_hooks(device))
        function.restype = _Pointer
        return int(function())

    def answer(self, device: str, functions: Sequence[int | None]) -> None:
        """Puts functions for the first ones of the hooks, as long as the process runs."""
        hooks = _Pointer.from_address(self.hooks(device))
        before = int(hooks.value or 0)
        table = (_Pointer * _COPIED)()
        ctypes.memmove(table, before - _BEFORE * _WORD, _COPIED * _WORD)
        for place, function in enumerate(functions, _BEFORE + self._abi.destructors):
            table[place] = function
        hooks.value = ctypes.addressof(table) + _BEFORE * _WORD
        atexit.register(_put_back, hooks, before, table)

    def new_guard(self) -> int:
        """Puts c10's guard that does nothing in CUDA's place; returns its address.

        PyTorch puts it there instead of a guard that says it has no devices, so one such stands
        there first: the place may be empty, or a ``FakeTensorMode`` may have changed its guard
        already.
        """
        registry = (_Pointer * _TYPES).in_dll(self._c10, self._abi.registry)
        no_devices = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: 0)
        table = (_Pointer * 64)(*[ctypes.cast(no_devices, _Pointer).value] * 64)
        without_devices = (_Pointer * 1)(ctypes.addressof(table))
        before = registry[_PLACE] = ctypes.addressof(without_devices)
        torch._C._ensureCUDADeviceGuardSet()
        if registry[_PLACE] == before or not registry[_PLACE]:
            raise ValueError("its guard was not replaced")
        return int(registry[_PLACE] or 0)

    def first_function(self, instance: int) -> int | None:
        """Returns what follows the destructor: ``type()`` of guards, ``isBuilt()`` of hooks."""
        table = int(_Pointer.from_address(instance).value or 0)
        return _Pointer.from_address(table + self._abi.destructors * _WORD).value


def _put_back(hooks: ctypes.c_void_p, before: int, _kept: Any) -> None:
    hooks.value = before


def try_in_this_process() -> bool:
    """Returns True if this process, which is for this alone, took CUDA, and made a tensor."""
    setattr(*IN_BAD_FORK, lambda: False)  # it asks nothing of a driver
    make_cuda_accelerator()
    tensor = TensorMaker().ghost((2, 3), (3, 1), torch.float32)
    return tensor.is_cuda and tensor.device == torch.device("cuda", 0)


def works_in_child() -> bool:
    """Returns True if a child process could take CUDA for its accelerator, and make a tensor."""
    if sys.platform not in ABIS:
        return False
    if sys.platform != "linux":  # without a fork, or with libraries that a fork may not use
        return _works_in_new_process()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child lacks
        child = os.fork()
    if not child:
        try:
            os._exit(not try_in_this_process())
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _works_in_new_process() -> bool:
    program = f"import sys; from {__name__} import try_in_this_process as t; sys.exit(not t())"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return ran.returncode == 0
