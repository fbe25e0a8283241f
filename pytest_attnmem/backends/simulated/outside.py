"""The simulated device between measured bodies: in fixtures, at module level, in other tests.

There a program sees the device, and may put tensors on it. Nothing else is simulated: no mode is
active, and what is on the CPU is PyTorch's own, with values. Measured bodies leave this state and
enter ``Simulation.active``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch.library import Library
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from . import lazy_parameters, loading, saving, torch_distributed, triton_driver
from .autocast import Autocast
from .fake_tensor import CUDA, SimulatedTensor
from .move_in_place import apply_in_place
from .patched import Patches, patched
from .scripting import compiled_without_patches
from .tensors_as_sizes import reading_sizes
from .undescribed_ops import NO_DATA

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode
    from .torch_cuda import TorchCuda

#: PyTorch's factories that may be asked for pinned memory.
_FROM_A_SIZE = ("empty", "zeros", "ones", "full", "rand", "randn")
#: The operators through which PyTorch's factories allocate; they have a kernel for each device.
_FACTORIES = ("empty.memory_format", "empty_strided", "tril_indices", "triu_indices")


class Outside:
    """The device of a session, outside its windows; the simulations of the session share one."""

    def __init__(
        self,
        fake_mode: SimulatedFakeMode,
        function_mode: SimulatedFunctionMode,
        torch_cuda: TorchCuda,
        address_patches: Callable[[], Patches],
    ) -> None:
        self.named = False
        """True if code outside the windows of the running test put a tensor on the device."""
        self._fake_mode = fake_mode
        self._function_mode = function_mode
        self._torch_cuda = torch_cuda
        self._address_patches = address_patches
        self._kernels: Library | None = None
        self._autocast = Autocast()
        self._patches = ExitStack()
        self._times_left = 0

    @property
    def entered(self) -> bool:
        """Returns True from ``enter`` to ``exit``."""
        return self._kernels is not None

    def enter(self) -> None:
        """Shows the device to the process."""
        self._kernels = Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about CUDA's kernels, overridden on purpose
            for name in _FACTORIES:
                self._kernels.impl(name, self._kernel(name), "CUDA", allow_override=True)
        self._patch()

    def exit(self) -> None:
        """Hides the device again."""
        if self._kernels is not None:
            self._patches.close()
            self._kernels._destroy()
            self._kernels = None

    @contextmanager
    def left(self) -> Iterator[None]:
        """Runs the body in PyTorch as it is installed."""
        self._patches.close()
        self._times_left += 1
        try:
            yield
        finally:
            self._times_left -= 1
            if self.entered and not self._times_left:
                self._patch()

    def _patch(self) -> None:
        self._patches.enter_context(
            patched(
                {
                    **self._torch_cuda.patches(),
                    **self._address_patches(),
                    **saving.patches(),
                    **torch_distributed.patches(),
                    **lazy_parameters.patches(self._fake_mode.observer.refused),
                    **triton_driver.patches(self._fake_mode.observer.refused),
                    **loading.outside_windows(self._function_mode),
                    **compiled_without_patches(self.left),
                    (torch.Tensor, "to"): self._to(torch.Tensor.to),
                    (torch.Tensor, "cuda"): self._cuda(),
                    (torch.Tensor, "new_tensor"): self._new_tensor(torch.Tensor.new_tensor),
                    (torch.Tensor, "pin_memory"): lambda tensor, *_, **__: tensor,
                    (torch.nn.Module, "_apply"): apply_in_place(torch.nn.Module._apply),
                    (torch, "tensor"): self._from_data(torch.tensor),
                    (torch, "as_tensor"): self._from_data(torch.as_tensor),
                    (torch, "asarray"): self._from_data(torch.asarray),
                    **self._on_simulated(),
                    **{(torch, name): _unpinned(getattr(torch, name)) for name in _FROM_A_SIZE},
                    **self._autocast.patches(),
                }
            )
        )
        self._patches.callback(self._autocast.restore)
        self._autocast.follow()

    def _kernel(self, name: str) -> Callable[..., Any]:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")

        def run(*args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> Any:
            if self._fake_mode.dispatch_depth:
                raise NotImplementedError(NO_DATA)
            device = self._function_mode.device(device or CUDA)
            with self._fake_mode:
                return op(*args, **kwargs, device=device)

        return run

    def _to(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if type(tensor) is SimulatedTensor or _names_cuda((*args[:1], *kwargs.values())):
                return self._function_mode.moves.to(tensor, *args, **kwargs)
            return original(tensor, *args, **kwargs)

        return to

    def _cuda(self) -> Callable[..., Any]:
        def cuda(tensor: Any, device: Any = None, *_: Any, **__: Any) -> Any:
            return self._function_mode.moves.to(tensor, CUDA if device is None else device)

        return cuda

    def _on_simulated(self) -> dict[tuple[Any, str], Callable[..., Any]]:
        """Returns the functions that the function mode has in windows, for simulated tensors."""
        sizes = reading_sizes()
        return {
            (owner, name): _for_simulated(run, getattr(owner, name))
            for owner, name, run in (
                (torch.Tensor, "type", self._function_mode.moves.to_type),
                (torch.Tensor, "tensor_split", sizes[torch.Tensor.tensor_split]),
                (torch, "tensor_split", sizes[torch.tensor_split]),
                (torch.nn.functional, "ctc_loss", sizes[torch.nn.functional.ctc_loss]),
            )
        }

    def _new_tensor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def new_tensor(tensor: Any, data: Any, **kwargs: Any) -> Any:
            if type(tensor) is not SimulatedTensor and not _names_cuda((*kwargs.values(),)):
                return original(tensor, data, **kwargs)
            return torch.tensor(data, **{"dtype": tensor.dtype, "device": tensor.device, **kwargs})

        return new_tensor

    def _from_data(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that takes data; on the device, it copies the data from the host."""

        def make(data: Any, *args: Any, **kwargs: Any) -> Any:
            device = kwargs.get("device")
            if device is None and not _is_tensor(data):
                device = _default_device()
            if not _names_cuda((device,)):
                return original(data, *args, **kwargs)
            grad = kwargs.pop("requires_grad", False)
            if not _is_tensor(data):
                kwargs["device"] = "cpu"
                data = original(data, *args, **kwargs)
            dtype = kwargs.get("dtype") or data.dtype
            copy = original is torch.tensor
            made = self._function_mode.moves.to(data, device, dtype, copy=copy)
            return made.detach().requires_grad_() if grad else made

        return make


def _for_simulated(run: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``run`` for a simulated tensor, and the original for another."""

    @wraps(original)
    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return (run if type(tensor) is SimulatedTensor else original)(tensor, *args, **kwargs)

    return call


def _unpinned(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a factory that pins no memory, which only a build with CUDA can."""

    @wraps(original)
    def make(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return make


def _default_device() -> torch.device | None:
    """Returns the device of the innermost ``with torch.device(…)`` or ``set_default_device``."""
    for mode in reversed(_get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return mode.device
    return None


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _names_cuda(values: tuple[Any, ...]) -> bool:
    """Returns True if one of the values is CUDA's name, or a tensor on it."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.is_cuda:
                return True
        elif isinstance(value, torch.device):
            if value.type == "cuda":
                return True
        elif isinstance(value, str):
            if value.partition(":")[0] == "cuda":
                return True
        elif isinstance(value, int) and not isinstance(value, bool):
            return True
    return False
