"""Tensors that wrap simulated tensors, such as DTensor: they run their operators on what they wrap.

PyTorch's C++ code gives a wrapper the device on which it sees the wrapped tensor, ``meta``; Python
code sees it on the device of the wrapped tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from ...units import kind_of
from ..import_watch import after_import
from .fake_tensor import SimulatedTensor

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

_FLATTEN: Final = "__tensor_flatten__"
_KEPT: Final = "_attnmem_wrapped"
#: The attribute with the tensor that a wrapper of PyTorch's holds, by module and class.
_HELD: Final = (
    ("torch.distributed.tensor._api", "DTensor", "_local_tensor"),
    ("torch.distributed._functional_collectives", "AsyncCollectiveTensor", "elem"),
)
#: The handlers of function calls that tensors have without one of their own.
_DEFAULT: Final = (
    vars(torch.Tensor)["__torch_function__"].__func__,
    torch._C._disabled_torch_function_impl,
)
_DEVICE_FACTS: Final = ("device", "is_cuda", "is_cpu", "is_meta")


def is_wrapper(value: Any) -> bool:
    """Returns True for a tensor that wraps others, and for the type of one."""
    return hasattr(value, _FLATTEN)


def own_handler(args: Iterable[Any]) -> Any:
    """Returns the ``__torch_function__`` of a subclass among the arguments that wraps no tensor.

    Returns None if no argument has one, and while such a function calls PyTorch's default.
    """
    if torch._C._is_torch_function_enabled():
        for arg in args:
            kind = type(arg)
            plain = kind is torch.Tensor or kind is SimulatedTensor
            if not plain and isinstance(arg, torch.Tensor) and not is_wrapper(arg):
                handler: Any = kind.__torch_function__
                if getattr(handler, "__func__", handler) not in _DEFAULT:
                    return handler
    return None


def other_handler(types: Iterable[type]) -> Any:
    """Returns the ``__torch_function__`` of an argument that is no tensor, as a proxy of torch.fx.

    Returns None if each of the types is one of tensors.
    """
    for kind in types:
        if not issubclass(kind, torch.Tensor):
            return kind.__torch_function__  # type: ignore[attr-defined]
    return None


def wraps(value: Any) -> bool:
    """Returns True for a tensor that wraps others, or a list with one."""
    if isinstance(value, (list, tuple)):
        return any(map(wraps, value))
    return is_wrapper(value)


def casts_apart(args: tuple[Any, ...]) -> bool:
    """Returns True for arguments that autocast may cast, and whose wrappers have no key of it."""
    return torch.is_autocast_enabled("cuda") and any(map(wraps, args))


def with_own_tensors(wrapper: Any, mode: SimulatedFakeMode) -> Any:
    """Returns a tensor that wraps others, which must be simulated.

    Raises:
        CannotSimulate: it wraps one from outside the window.
    """
    for inner in (getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0]):
        if is_wrapper(inner):
            with_own_tensors(inner, mode)
        elif isinstance(inner, torch.Tensor) and getattr(inner, "fake_mode", None) is not mode:
            raise mode.observer.refused(
                f"{kind_of(wrapper)} {list(wrapper.shape)} of a tensor on 'meta', or"
                " from outside the window, cannot be simulated; make it inside, on 'cuda'"
            )
    return wrapper


class WrapperCalls:
    """The operators of wrappers that run in one fake mode."""

    def __init__(self) -> None:
        self.running = False
        """True while a wrapper runs an operator, which autograd then treats as on a subclass."""
        self._entering = False

    def run(self, mode: SimulatedFakeMode, func: Any, args: Any, kwargs: Any) -> Any:
        """Has the wrapper run its operator, whose calls on wrapped tensors come to the mode."""
        if self._entering:
            self._entering = False
            return NotImplemented
        before, self.running, self._entering = self.running, True, True
        try:
            with mode:
                return func(*args, **(kwargs or {}))
        finally:
            self.running, self._entering = before, False


def show_devices() -> None:
    """Has PyTorch's wrappers of simulated tensors name the device of what they wrap."""
    for module, name, held in _HELD:
        after_import(module, partial(_show, name, held))


def _show(name: str, held: str, module: ModuleType) -> None:
    wrapper: Any = getattr(module, name)
    if _KEPT in vars(wrapper):
        return
    setattr(wrapper, _KEPT, True)
    for fact in _DEVICE_FACTS:
        setattr(wrapper, fact, _of_held(fact, held))
    if held == "elem":  # made in Python; C++ code makes the other, and asks C++ code
        wrapper.__new__ = staticmethod(_as_seen_by_cpp(wrapper.__new__))


def _of_held(fact: str, held: str) -> property:
    """Returns an attribute that a wrapper of a simulated tensor has from that tensor."""
    original: Any = vars(torch._C.TensorBase).get(fact) or getattr(torch.Tensor, fact)

    def get(self: Any) -> Any:
        inner = getattr(self, held, None)
        simulated = type(inner) is SimulatedTensor or is_wrapper(inner)
        return getattr(inner, fact) if simulated else original.__get__(self)

    return property(get)


def _as_seen_by_cpp(make: Any) -> Any:
    def made(cls: Any, elem: Any, *args: Any, **kwargs: Any) -> Any:
        mode = vars(elem).get("fake_mode") if type(elem) is SimulatedTensor else None
        if mode is None:
            return make(cls, elem, *args, **kwargs)
        before, mode.in_kernel_invocation = mode.in_kernel_invocation, True
        try:
            return make(cls, elem, *args, **kwargs)
        finally:
            mode.in_kernel_invocation = before

    return made
