"""Everything that makes a program believe in a simulated device, put on and taken off again.

It changes PyTorch for the whole process while it holds: ``torch.cuda``, and a few functions that
programs call by name. Threads that use a real device meanwhile are not served; measuring threads
are one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses import fake_tensor
from torch.autograd.graph import _engine_run_backward
from torch.optim import optimizer
from torch.utils import _foreach_utils, _python_dispatch
from torch.utils._mode_utils import no_dispatch

from .fake_tensor import CUDA, SimulatedTensor
from .hidden_fakes import without_modes
from .torch_cuda import SimulatedGenerator

if TYPE_CHECKING:
    from .autocast import Autocast
    from .composite_ops import CompositeOps
    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode
    from .torch_cuda import TorchCuda


@contextmanager
def surroundings(
    world: SimulatedFakeMode,
    translation: SimulatedFunctionMode,
    interface: TorchCuda,
    composites: CompositeOps,
    autocast: Autocast,
    replaced: Mapping[tuple[Any, str], Any],
) -> Iterator[None]:
    """Run the body on the simulated device."""
    patches = {**_everywhere(translation, autocast), **without_modes(world.askers), **replaced}
    for name, replacement in interface.replacements().items():
        for module in (torch.cuda, torch.cuda.memory, torch.cuda.random):
            if hasattr(module, name):
                patches[module, name] = replacement
    for name, replacement in interface.accelerator().items():
        if hasattr(torch.accelerator, name):
            patches[torch.accelerator, name] = replacement
    with ExitStack() as stack:
        stack.enter_context(_patched(patches))
        for library in (composites.install(), autocast.install()):
            stack.callback(library._destroy)
        stack.enter_context(world)
        stack.enter_context(_patched({(_python_dispatch, "_is_in_torch_dispatch_mode"): False}))
        stack.enter_context(translation)
        world.running = True
        try:
            yield
        finally:
            world.running = False
            autocast.clear()


@contextmanager
def _patched(patches: Mapping[tuple[Any, str], Any]) -> Iterator[None]:
    missing = object()
    before = [(owner, name, vars(owner).get(name, missing)) for owner, name in patches]
    try:
        for (owner, name), replacement in patches.items():
            setattr(owner, name, replacement)
        yield
    finally:
        for owner, name, original in reversed(before):
            if original is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def _everywhere(
    translation: SimulatedFunctionMode, autocast: Autocast
) -> dict[tuple[Any, str], Any]:
    return {
        (fake_tensor, "init_gpu_context"): lambda device: None,
        (fake_tensor.log, "disabled"): True,  # of a shape that does not fit, the error is enough
        (torch, "Generator"): SimulatedGenerator,
        (torch, "get_rng_state"): _unmoved(torch.get_rng_state),
        (torch.random, "get_rng_state"): _unmoved(torch.random.get_rng_state),
        (torch, "set_rng_state"): lambda state: None,
        (torch.random, "set_rng_state"): lambda state: None,
        (torch, "clear_autocast_cache"): _both(torch.clear_autocast_cache, autocast.clear),
        (torch.autograd, "_engine_run_backward"): _resumed(_engine_run_backward, translation),
        (torch.autograd.Function, "apply"): classmethod(
            _with_fakes(vars(torch.autograd.Function)["apply"], translation)
        ),
        (torch.UntypedStorage, "__init__"): _noted(translation),
        (torch.UntypedStorage, "resize_"): _told(torch.UntypedStorage.resize_, translation),
        (torch._C, "_group_tensors_by_device_and_dtype"): _by_device(
            torch._C._group_tensors_by_device_and_dtype, translation
        ),
        # Modules take their fast path on plain tensors, which those of the program stand for.
        (optimizer, "_foreach_supported_types"): [
            *optimizer._foreach_supported_types,
            SimulatedTensor,
        ],
        (_foreach_utils, "_foreach_supported_types"): [
            *_foreach_utils._foreach_supported_types,
            SimulatedTensor,
        ],
        (torch.overrides, "has_torch_function"): lambda tensors: False,
        (torch.nn.Module, "_apply"): _applied(translation),
        (torch.backends.cudnn, "is_acceptable"): lambda tensor: False,
        (torch.backends.cuda, "is_built"): lambda: True,
        (torch.amp.GradScaler, "_maybe_opt_step"): _step,
    }


def _unmoved(original: Callable[[], Any]) -> Callable[[], Any]:
    """The real state: the host's generator is no concern of the device."""

    def run() -> Any:
        with torch._C.DisableTorchFunction(), no_dispatch():
            return original()

    return run


def _both(first: Callable[[], Any], second: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        first()
        second()

    return run


def _resumed(
    original: Callable[..., Any], translation: SimulatedFunctionMode
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with translation.resumed():
            return original(*args, **kwargs)

    return run


def _with_fakes(original: Any, translation: SimulatedFunctionMode) -> Callable[..., Any]:
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        args = translation.standing(args)
        return original.__func__(cls, *args, **kwargs)

    return apply


def _noted(translation: SimulatedFunctionMode) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:  # it is allocated past all operators
            translation.note("torch.UntypedStorage")

    return __init__


def _told(original: Callable[..., Any], translation: SimulatedFunctionMode) -> Callable[..., Any]:
    def resize_(storage: Any, size: int) -> Any:
        result = original(storage, size)
        translation.resized(storage)
        return result

    return resize_


def _step(self: Any, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
    """Without values no gradient is infinite."""
    return optimizer.step(*args, **kwargs)


def _by_device(
    original: Callable[..., Any], translation: SimulatedFunctionMode
) -> Callable[..., Any]:
    """With the names of devices that Python knows."""

    def grouped(*args: Any) -> Any:
        groups = original(*translation.standing(args))
        return {
            (CUDA if device is not None and device.type == "meta" else device, dtype): group
            for (device, dtype), group in groups.items()
        }

    return grouped


def _applied(translation: SimulatedFunctionMode) -> Callable[..., Any]:
    """``Module._apply``: a parameter of a module from outside is changed in what stands for it."""

    def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for tensors in (self._parameters, self._buffers):
            for tensor in tensors.values():
                if tensor is not None:
                    (fake,) = translation.standing((tensor,))
                    _become(fake, fn(tensor))
                    if fake.grad is not None:
                        _become(fake.grad, fn(fake.grad))
        return self

    return _apply


def _become(fake: Any, other: Any) -> None:
    if other is not fake:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            fake.data = other.detach()
            fake.fake_device = other.fake_device
