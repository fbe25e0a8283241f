"""The simulated device between measured bodies: in fixtures, at module level, in other tests.

There a program sees the device, and may put tensors on it. Nothing else is simulated: no mode is
active, and what is on the CPU is PyTorch's own, with values. Measured bodies leave this state and
enter ``Simulation.active``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo import eval_frame
from torch.library import Library
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from . import dlpack, loading, saving, torch_distributed, traced_code
from .autocast import Autocast
from .fake_tensor import CUDA, SimulatedTensor
from .move_in_place import apply_in_place, swapping
from .moves import parse_to
from .patched import Patches, are_set, patched
from .scripting import compiled_without_patches
from .undescribed_ops import NO_DATA
from .unsimulated import refusals
from .wrapped_tensors import is_wrapper, own_handler, with_own_tensors

if TYPE_CHECKING:
    from .fake_converter import FakeConverter
    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode
    from .placement import Placement
    from .torch_cuda import TorchCuda

_SPARSE = ("coo", "compressed", "csr", "csc", "bsr", "bsc")
#: Factories of C++ code that runs several operators on the device.
_IN_STEPS = ("kaiser_window", *(f"sparse_{kind}_tensor" for kind in _SPARSE))
#: The operators through which PyTorch's factories allocate; they have a kernel for each device.
_FACTORIES = ("empty.memory_format", "empty_strided", "tril_indices", "triu_indices")


class Outside:
    """The device of a session, outside its windows; the simulations of the session share one."""

    def __init__(
        self,
        fake_mode: SimulatedFakeMode,
        function_mode: SimulatedFunctionMode,
        torch_cuda: TorchCuda,
        storage_patches: Callable[[], Patches],
        install: Callable[[], Callable[[], None]],
    ) -> None:
        self.programs: list[tuple[Placement, FakeConverter]] = []
        """The placement and the fakes of each simulation of the session."""
        self.named = False
        """True if code outside the windows of the running test put a tensor on the device."""
        self._fake_mode = fake_mode
        self._function_mode = function_mode
        self._torch_cuda = torch_cuda
        self._storage_patches = storage_patches
        self._install = install
        self._remove_composites: Callable[[], None] | None = None
        self._kernels: Library | None = None
        self._autocast = Autocast()
        self._patches = ExitStack()
        self._set: Patches = {}
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
        self._remove_composites = self._install()
        self._patch()

    def exit(self) -> None:
        """Hides the device again."""
        if self._kernels is not None and self._remove_composites is not None:
            self._patches.close()
            self._remove_composites()
            self._kernels._destroy()
            self._kernels = self._remove_composites = None

    def settle(self, *, drop: bool = False) -> None:
        """Ends a run: tensors from outside become what its windows made of them, or ``drop`` it."""
        for placement, converter in self.programs:
            converter.clear(settled=not (drop or placement.starts_again))
            if placement.may_start_again and not drop:
                converter.leave_on_host()
        if self.entered and not (self._times_left or are_set(self._set)):
            self._patches.close()  # a test replaced some of the patches, or put old ones back
            self._patch()

    def note_values(self, values: Iterable[object]) -> None:
        """Notes that values of fixtures are on the device, where an earlier test moved them."""
        self.named = self.named or any(map(_is_on_device, values))

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
        patches = {
            **self._torch_cuda.patches(),
            **self._storage_patches(),
            **saving.patches(),
            **dlpack.patches(lambda tensors: tensors),
            **torch_distributed.patches(),
            **refusals(self._fake_mode.observer.refused),
            **traced_code.outside_windows(self._fake_mode.observer.refused),
            **loading.outside_windows(self._fake_mode, self._function_mode),
            **compiled_without_patches(self.left),
            (torch.Tensor, "to"): self._to(torch.Tensor.to),
            (torch.Tensor, "cuda"): self._cuda(),
            (torch.Tensor, "new_tensor"): self._new_tensor(torch.Tensor.new_tensor),
            (torch.Tensor, "type"): self._type(torch.Tensor.type),
            (torch._C._nn, "_parse_to"): parse_to,
            (torch.nn.Module, "_apply"): apply_in_place(torch.nn.Module._apply),
            (torch.utils, "swap_tensors"): swapping(torch.utils.swap_tensors, lambda pair: pair),
            (torch, "tensor"): self._from_data(torch.tensor),
            (torch, "as_tensor"): self._from_data(torch.as_tensor),
            (torch, "asarray"): self._from_data(torch.asarray),
            **{(torch, name): self._factory(getattr(torch, name)) for name in _IN_STEPS},
            (eval_frame, "_callback_from_stance"): self._eager_on_device(
                eval_frame._callback_from_stance
            ),
            (torch.backends.cudnn, "is_acceptable"): lambda tensor: False,
            **self._autocast.patches(),
            (SimulatedTensor, "__torch_function__"): self._followed(),
        }
        self._set = self._function_mode.pinned_memory.outside_windows(patches)
        self._patches.enter_context(patched(self._set))
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

    def _followed(self) -> Any:
        """Returns the handler of a call on simulated tensors; what C++ code makes is simulated."""
        function_mode, fake_mode = self._function_mode, self._fake_mode

        def call(func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if own_handler((*args, *kwargs.values())) is not None:
                return NotImplemented
            with torch._C.DisableTorchFunctionSubclass(), fake_mode:
                return function_mode.call_outside(func, args, kwargs)

        return staticmethod(call)

    def _in_rule(self) -> bool:
        """Returns True while PyTorch runs its own rule of an operator, whose calls are its own."""
        return self._fake_mode.in_kernel_invocation or self._fake_mode.dispatch_depth > 0

    def _to(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._in_rule():
                return original(tensor, *args, **kwargs)
            if is_wrapper(tensor) and _names_cuda((*args[:1], *kwargs.values())):
                with_own_tensors(tensor, self._fake_mode)
            if type(tensor) is SimulatedTensor or _names_cuda((*args[:1], *kwargs.values())):
                return self._function_mode.moves.to(tensor, *args, **kwargs)
            return original(tensor, *args, **kwargs)

        return to

    def _cuda(self) -> Callable[..., Any]:
        def cuda(tensor: Any, device: Any = None, *_: Any, **__: Any) -> Any:
            return self._function_mode.moves.to(tensor, CUDA if device is None else device)

        return cuda

    def _type(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def to_type(tensor: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
            named = dtype if isinstance(dtype, str) else getattr(dtype, "__module__", "")
            on_device = type(tensor) is SimulatedTensor or named.startswith("torch.cuda")
            moves = on_device and not self._in_rule()
            run = self._function_mode.moves.to_type if moves else original
            return run(tensor, dtype, *args, **kwargs)

        return to_type

    def _factory(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a factory that C++ code runs in several steps."""

        @wraps(original)
        def make(*args: Any, **kwargs: Any) -> Any:
            if not _names_cuda((kwargs.get("device") or _default_device(),)):
                return original(*args, **kwargs)
            with self._fake_mode:
                return self._function_mode.run_factory(original, args, kwargs)

        return make

    def _eager_on_device(self, decide: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns how to run compiled code: eagerly if the program uses the device."""
        return lambda callback: None if self.named else decide(callback)

    def _new_tensor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def new_tensor(tensor: Any, data: Any, **kwargs: Any) -> Any:
            if type(tensor) is not SimulatedTensor and not _names_cuda((*kwargs.values(),)):
                return original(tensor, data, **kwargs)
            return torch.tensor(data, **{"dtype": tensor.dtype, "device": tensor.device, **kwargs})

        return new_tensor

    def _from_data(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that takes data; on the device, it copies the data from the host."""

        def make(*args: Any, **kwargs: Any) -> Any:
            data = args[0] if args else kwargs.pop("obj" if "obj" in kwargs else "data")
            args = args[1:]
            device = kwargs.get("device")
            if device is None and not _is_tensor(data):
                device = _default_device()
            if not _names_cuda((device,)):
                return original(self._function_mode.with_values(data), *args, **kwargs)
            grad = kwargs.pop("requires_grad", False)
            if not _is_tensor(data):
                kwargs["device"] = "cpu"
                data = original(self._function_mode.with_values(data), *args, **kwargs)
            dtype = kwargs.get("dtype") or data.dtype
            copy = original is torch.tensor
            made = self._function_mode.moves.to(data, device, dtype, copy=copy)
            return made.detach().requires_grad_() if grad else made

        return make


def _is_on_device(value: object) -> bool:
    """Returns True for a tensor or a module that is on the device, or a list with one."""
    for part in value if isinstance(value, (list, tuple)) else (value,):
        is_module = issubclass(type(part), torch.nn.Module)  # its __class__ may raise
        for tensor in (*part.parameters(), *part.buffers()) if is_module else (part,):
            if type(tensor) is SimulatedTensor and tensor._fake_device is CUDA:
                return True
    return False


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
