"""Code that is compiled for a device: here it runs eagerly, and the window is not enforced."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch._dynamo import eval_frame

from ....errors import CannotSimulate
from ...import_watch import after_import
from ..program_errors import at

if TYPE_CHECKING:
    from ..patched import Patches

_SHOWN: Final = "_attnmem_triton_driver"
_KEPT: Final = "_attnmem_simulated"
#: The modules and classes whose method ``run`` launches a kernel; the tuner asks the driver before,
#: and the interpreter copies the memory of its tensors.
_LAUNCHERS: Final = (
    ("triton.runtime.jit", "JITFunction"),
    ("triton.runtime.interpreter", "InterpretedFunction"),
    ("triton.runtime.autotuner", "Autotuner"),
)


def follow_triton() -> None:
    """Has Triton ask the simulated device, where one is shown, as soon as it is imported."""
    after_import("triton.runtime.driver", _name_device)
    for name, owner in _LAUNCHERS:
        after_import(name, partial(_refuse, owner))


def triton_patches(refused: Callable[[str], CannotSimulate]) -> Patches:
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


#: The types whose calls run TorchScript's interpreter.
_SCRIPTS: Final = (torch._C.ScriptFunction, torch._C.ScriptMethod)
_COMPILED: Final = "compiled code cannot be simulated"
_CALLED: Final = re.compile(r"aten::(\w+)\(")


class CompiledCode:
    """What one window compiles, captures or launches."""

    def __init__(
        self, refused: Callable[[str], CannotSimulate], names_device: Callable[[], bool]
    ) -> None:
        self._refused = refused
        self._names_device = names_device
        self._problem = ""
        self._called = weakref.WeakSet[Any]()
        """The scripts that were called: TorchScript fuses their kernels from then on."""
        follow_triton()

    def clear(self) -> None:
        """Begins a window."""
        self._problem = ""

    @property
    def problem(self) -> str | None:
        """Returns why the numbers may be wrong."""
        return self._problem or None

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches by owner and name."""

        def compile(model: Any = None, **options: Any) -> Any:
            if not options.get("disable") and options.get("backend") != "eager":
                self._problem = _COMPILED
            return (lambda function: function) if model is None else model

        decide = eval_frame._callback_from_stance

        def eager(callback: Any) -> Any:
            if decide(callback) not in (None, False):
                self._problem = _COMPILED
            return None

        def graph(*_: Any, **__: Any) -> NoReturn:
            raise self._refused(f"a CUDA graph{at()} cannot be simulated")

        return {
            (torch, "compile"): compile,
            (eval_frame, "_callback_from_stance"): eager,
            (torch.cuda.CUDAGraph, "__new__"): graph,
            **triton_patches(self._refused),
            **{(script, "__call__"): self._counted(script.__call__) for script in _SCRIPTS},
        }

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(script: Any, *args: Any, **kwargs: Any) -> Any:
            if script in self._called and _fuses(script, (*args, *kwargs.values())):
                self._problem = (
                    f"TorchScript fuses the kernels of a script that is called again{at()}, which"
                    " cannot be simulated; set PYTORCH_JIT=0, which runs scripts as Python, or use"
                    " backend='null' or 'cuda'"
                )
            self._called.add(script)
            out = original(script, *args, **kwargs)
            if isinstance(out, torch.Tensor) and out.is_cpu and not self._names_device():
                self._problem = (
                    f"TorchScript made a tensor on the host{at()}, in a program that names no"
                    " device; name the device in the script"
                )
            return out

        return __call__


def _fuses(script: Any, values: tuple[Any, ...]) -> bool:
    """Returns True for a call on the device of a script with several kernels of elements."""
    if not any(isinstance(value, torch.Tensor) and value.is_cuda for value in values):
        return False
    called = _CALLED.findall(str(script.inlined_graph))
    return torch._C._jit_texpr_fuser_enabled() and sum(map(_is_of_elements, called)) > 1


def _is_of_elements(name: str) -> bool:
    packet = getattr(torch.ops.aten, name)
    overloads = (getattr(packet, overload) for overload in packet.overloads())
    return any(torch.Tag.pointwise in overload.tags for overload in overloads)
