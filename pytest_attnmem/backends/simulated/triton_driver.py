"""Triton beside a simulated device: its driver names that device, and no kernel is launched.

Libraries ask the driver for its device as soon as they are imported, and take other code if there
is none. A launch needs a real device: what a kernel allocates and writes is not simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from ..import_watch import after_import
from .program_errors import at

if TYPE_CHECKING:
    from ...errors import CannotSimulate
    from .patched import Patches

_SHOWN: Final = "_attnmem_triton_driver"
_KEPT: Final = "_attnmem_simulated"
#: The modules and classes whose method ``run`` launches a kernel; the tuner asks the driver before,
#: and the interpreter copies the memory of its tensors.
_LAUNCHERS: Final = (
    ("triton.runtime.jit", "JITFunction"),
    ("triton.runtime.interpreter", "InterpretedFunction"),
    ("triton.runtime.autotuner", "Autotuner"),
)


def follow() -> None:
    """Has Triton ask the simulated device, where one is shown, as soon as it is imported."""
    after_import("triton.runtime.driver", _name_device)
    for name, owner in _LAUNCHERS:
        after_import(name, partial(_refuse, owner))


def patches(refused: Callable[[str], CannotSimulate]) -> Patches:
    """Returns the patch that shows the driver; ``refused`` makes the error of a launch."""
    return {(torch.cuda, _SHOWN): SimulatedDriver(refused)}


class SimulatedDriver:
    """What Triton's driver tells of its device; it has no code for it."""

    def __init__(self, refused: Callable[[str], CannotSimulate]) -> None:
        self._refused = refused
        self.utils = self

    def get_current_target(self) -> Any:
        """Returns the target of Triton's compiler."""
        from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]

        major, minor = torch.cuda.get_device_capability()
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_active_torch_device(self) -> torch.device:
        """Returns the device as PyTorch names it."""
        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        """Returns the device's number."""
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        """Returns the address of the current stream."""
        return torch.cuda.current_stream(device).cuda_stream

    def get_device_interface(self) -> ModuleType:
        """Returns the module that has the functions of the device."""
        return torch.cuda

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Returns the compute capability."""
        return torch.cuda.get_device_capability(device)

    def get_device_properties(self, device: Any = None) -> Mapping[str, int]:
        """Returns the numbers of the device that its profile has."""
        known: Any = torch.cuda.get_device_properties(device)
        return _Properties(
            self.refused,
            max_shared_mem=known.shared_memory_per_block_optin,
            multiprocessor_count=known.multi_processor_count,
            max_num_regs=known.regs_per_multiprocessor,
            warpSize=known.warp_size,
        )

    def refused(self, what: str) -> CannotSimulate:
        """Returns the error for a use of Triton that needs a device."""
        return self._refused(f"{what}{at()} cannot be simulated; use backend='null'")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.refused(f"{name!r} of Triton's driver")


class _Properties(dict[str, int]):
    def __init__(self, refused: Callable[[str], CannotSimulate], **known: int) -> None:
        super().__init__(known)
        self._refused = refused

    def __missing__(self, name: str) -> int:
        raise self._refused(f"{name!r} of Triton's driver")


def _shown() -> SimulatedDriver | None:
    return getattr(torch.cuda, _SHOWN, None)


def _name_device(module: ModuleType) -> None:
    """Has Triton take the simulated driver for the active one."""
    config: Any = module.DriverConfig
    if hasattr(config, _KEPT):
        return
    setattr(config, _KEPT, True)
    active = config.active.fget
    config.active = property(lambda self: _shown() or active(self))


def _refuse(owner: str, module: ModuleType) -> None:
    """Has a launch on the simulated device say that it cannot be simulated."""
    launcher: Any = getattr(module, owner)
    run = launcher.run
    if hasattr(run, _KEPT):
        return

    @wraps(run)
    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        driver = _shown()
        if driver is None or kwargs.get("warmup"):
            return run(self, *args, **kwargs)
        kernel = getattr(self, "base_fn", None) or self.fn  # a tuner's may have wrappers
        raise driver.refused(f"a Triton kernel, {kernel.__name__},")

    setattr(launched, _KEPT, True)
    launcher.run = launched
