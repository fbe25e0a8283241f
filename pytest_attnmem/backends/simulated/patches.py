"""Patches of PyTorch that show a simulated device to a program, applied and undone together.

While they are applied, they hold for the whole process: ``torch.cuda`` and a few functions that
programs call by name. Only one thread measures at a time; another thread must not use a real device
meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses import fake_tensor
from torch.autograd.graph import _engine_run_backward
from torch.optim import optimizer
from torch.utils import _foreach_utils, _python_dispatch

from ...errors import UnknownValue
from . import copies, loading, rebound_arguments, transforms
from .changed_tensors import set_data
from .failed_backward import emptying_queue
from .fake_tensor import CUDA, SimulatedTensor
from .file_memory import of_buffers
from .hidden_fakes import without_modes
from .meta_tensors import is_meta
from .move_in_place import become, put, swapping
from .patched import Patches, patched, present
from .scripting import compiled_without_patches

if TYPE_CHECKING:
    from .autocast import Autocast
    from .composite_ops import CompositeOps
    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode
    from .torch_cuda import TorchCuda
    from .values import Values

#: Floating-point operations that ``GradScaler`` may cost to know if a gradient is infinite.
_STEP_WORK: Final = 10**9


@contextmanager
def patched_torch(
    fake_mode: SimulatedFakeMode,
    function_mode: SimulatedFunctionMode,
    torch_cuda: TorchCuda,
    composite_ops: CompositeOps,
    autocast: Autocast,
    further: Patches,
) -> Iterator[None]:
    """Runs the body on the simulated device; ``further`` has more patches."""
    patches = {
        **torch_cuda.patches(),
        **loading.inside(fake_mode, function_mode),
        **_torch_patches(function_mode, autocast, fake_mode.values),
        (torch, "frombuffer"): of_buffers(function_mode.to_fakes, fake_mode),
        (torch.nn.Module, "_apply"): _module_apply(torch.nn.Module._apply, function_mode),
        **_backward_pass(function_mode, fake_mode, torch_cuda),
        **without_modes(fake_mode.torch_code),
        **composite_ops.patches(),
        **further,
    }
    as_installed = partial(patched, present(patches))
    patches |= compiled_without_patches(as_installed)
    with ExitStack() as stack:
        stack.callback(function_mode.moved_buffers.leave)
        stack.enter_context(patched(patches))
        stack.callback(composite_ops.install())
        stack.enter_context(composite_ops.forward_formulas.followed())
        stack.callback(autocast.restore)
        autocast.follow()
        stack.enter_context(fake_mode)
        stack.enter_context(patched({(_python_dispatch, "_is_in_torch_dispatch_mode"): False}))
        stack.enter_context(function_mode)
        fake_mode.running = True
        try:
            yield
        finally:
            fake_mode.running = False


def _torch_patches(
    function_mode: SimulatedFunctionMode, autocast: Autocast, values: Values
) -> dict[tuple[Any, str], Any]:
    return {
        (fake_tensor, "init_gpu_context"): lambda device: None,
        (fake_tensor.log, "disabled"): True,  # a shape mismatch raises an error anyway
        **autocast.patches(),
        (torch.autograd.Function, "apply"): classmethod(
            _with_fakes(vars(torch.autograd.Function)["apply"], function_mode)
        ),
        (torch.UntypedStorage, "__init__"): _storage_init(function_mode),
        (torch.UntypedStorage, "resize_"): _storage_resize(
            torch.UntypedStorage.resize_, function_mode
        ),
        (torch._C, "_group_tensors_by_device_and_dtype"): _group_by_device(
            torch._C._group_tensors_by_device_and_dtype, function_mode
        ),
        # The program's tensors must take modules' fast path, as plain tensors do.
        (optimizer, "_foreach_supported_types"): [
            *optimizer._foreach_supported_types,
            SimulatedTensor,
        ],
        (_foreach_utils, "_foreach_supported_types"): [
            *_foreach_utils._foreach_supported_types,
            SimulatedTensor,
        ],
        (torch.overrides, "has_torch_function"): lambda tensors: False,
        **copies.of_tensors_from_outside(function_mode.to_fakes),
        **transforms.of_tensors_from_outside(function_mode.to_fakes),
        **rebound_arguments.patches(),
        (torch.utils, "swap_tensors"): swapping(torch.utils.swap_tensors, function_mode.to_fakes),
        (torch.backends.cudnn, "is_acceptable"): lambda tensor: False,
        (torch.amp.GradScaler, "_maybe_opt_step"): _opt_step(values),
    }


def _backward_pass(
    function_mode: SimulatedFunctionMode, fake_mode: SimulatedFakeMode, torch_cuda: TorchCuda
) -> dict[tuple[Any, str], Any]:
    run = emptying_queue(_run_backward(_engine_run_backward, function_mode, fake_mode))
    run = torch_cuda.stream_graphs.checked(run, fake_mode.observer.refused)
    return {(torch.autograd, "_engine_run_backward"): run}


def _run_backward(
    original: Callable[..., Any],
    function_mode: SimulatedFunctionMode,
    fake_mode: SimulatedFakeMode,
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with fake_mode.autograd_calls.backward_pass(), function_mode.inside_autograd():
                return original(*args, **kwargs)
        except RuntimeError as error:  # C++ code names the types that it sees
            error.args = tuple([_as_on_device(text) for text in error.args])
            raise

    return run


def _as_on_device(text: Any) -> Any:
    return re.sub(r"\bMeta(\w+)Type\b", r"torch.cuda.\1Tensor", text) if type(text) is str else text


def _with_fakes(original: Any, function_mode: SimulatedFunctionMode) -> Callable[..., Any]:
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        args = function_mode.to_fakes(args)
        return original.__get__(None, cls)(*args, **kwargs)

    return apply


def _storage_init(function_mode: SimulatedFunctionMode) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not function_mode.is_for_host(kwargs.get("device")):
            # Allocated without any operator.
            function_mode.mark_unknown("torch.UntypedStorage")

    return __init__


def _storage_resize(
    original: Callable[..., Any], function_mode: SimulatedFunctionMode
) -> Callable[..., Any]:
    def resize_(storage: Any, size: int) -> Any:
        result = original(storage, size)
        function_mode.storage_resized(storage)
        return result

    return resize_


def _opt_step(values: Values) -> Callable[..., Any]:
    """Returns ``GradScaler._maybe_opt_step``, which skips a step whose gradients are infinite.

    Gradients that take much work stay unknown; then the optimizer steps, as it does in all but a
    few steps of a training run.
    """

    def step(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        for found in state["found_inf_per_device"].values():
            with suppress(UnknownValue):
                if values.value(found, _STEP_WORK).item():
                    return None
        return optimizer.step(*args, **kwargs)

    return step


def _group_by_device(
    original: Callable[..., Any], function_mode: SimulatedFunctionMode
) -> Callable[..., Any]:
    """Returns the function with ``cuda:0`` in its results, where C++ code sees ``meta``."""

    def grouped(*args: Any) -> Any:
        groups = original(*function_mode.to_fakes(args))
        return {
            (CUDA if device is not None and device.type == "meta" else device, dtype): group
            for (device, dtype), group in groups.items()
        }

    return grouped


def _module_apply(
    original: Callable[..., Any], function_mode: SimulatedFunctionMode
) -> Callable[..., Any]:
    """Returns ``Module._apply`` for fakes: parameters from outside are changed in their fakes."""

    def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        if recurse:
            for child in self.children():
                child._apply(fn)
        if torch.__future__.get_swap_module_params_on_conversion():
            return original(self, fn, recurse=False)  # it swaps whatever has the place of a fake
        overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
        for tensors in (self._parameters, self._buffers):
            for name in [*tensors]:
                tensor = tensors[name]
                if tensor is not None:
                    with torch.no_grad():
                        moved = fn(tensor)  # first: it may name the device
                    if is_meta(tensor) or is_meta(moved) or overwrites:
                        put(self, name, moved, tensor, fn)
                        continue
                    if moved is tensor:
                        continue
                    if tensors is self._buffers:
                        tensors[name] = moved  # another name may keep the old one alive
                        if type(tensor) is not SimulatedTensor:
                            function_mode.moved_buffers.note(self, name, tensor)
                        continue
                    (fake,) = function_mode.to_fakes((tensor,))
                    if fake.is_cuda and moved.is_cpu:
                        become(fake, moved, fn)  # C++ code sees the two on other devices
                        continue
                    set_data(fake, moved)
                    if fake.grad is not None:
                        set_data(fake.grad, fn(fake.grad))
        return self

    return _apply
