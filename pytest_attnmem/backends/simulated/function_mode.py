"""What a program says to PyTorch's Python interface, in the words of a simulated device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor as _is_wrapped
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from ...errors import CannotSimulate
from .fake_tensor import CPU, CUDA, UNPLACED, SimulatedTensor
from .simulated_device import DeviceName

if TYPE_CHECKING:
    from .fake_converter import FakeConverter
    from .fake_mode import SimulatedFakeMode

#: Attributes of a tensor from outside that its fake has to answer for.
_ANSWERED = frozenset({"device", "is_cuda", "is_cpu", "grad", "data", "T", "mT", "H", "mH"})
#: Factories that make of one number a tensor of the host, as they do in a program for CUDA.
_OF_NUMBERS = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor})
_SIZED = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn})


class SimulatedFunctionMode(TorchFunctionMode):
    """Sees each call of the program: names of devices, and tensors from outside."""

    def __init__(
        self,
        world: SimulatedFakeMode,
        adoption: FakeConverter,
        resized: Callable[[torch.UntypedStorage], None],
    ) -> None:
        super().__init__()
        self.calling: Any = None
        """What the program called last."""
        self.resized = resized
        self.note = world.observer.note
        self._world = world
        self._adoption = adoption
        self._factories = frozenset(_device_constructors())
        self._special: dict[Any, Callable[..., Any]] = {
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: lambda tensor, device=None, *_, **__: self._moved(
                tensor, self.device(CUDA if device is None else device)
            ),
            torch.Tensor.cpu: lambda tensor, *_, **__: self._moved(tensor, CPU),
            torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
            torch.Tensor.is_pinned: lambda tensor, *_, **__: tensor.fake_device.type == "cpu",
            torch.Tensor.__deepcopy__: lambda tensor, memo: tensor.__deepcopy__(memo),
            torch.get_device: lambda tensor: tensor.get_device(),
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for arg in args:
            if type(arg) is not SimulatedTensor and isinstance(arg, (torch.Tensor, list, tuple)):
                if getattr(func, "__name__", "") in ("__get__", "__set__"):
                    return self._attribute(func, args)
                args = self.standing(args)
                break
        world = self._world
        before, self.calling = self.calling, func
        world.calls += 1
        try:
            special = self._special.get(func)
            if special is not None:
                return special(*args, **(kwargs or {}))
            if func in self._factories:
                return self._made(func, args, kwargs or {})
            if kwargs:
                for arg in kwargs.values():
                    if isinstance(arg, torch.Tensor) and type(arg) is not SimulatedTensor:
                        kwargs = {key: self._adopted(value) for key, value in kwargs.items()}
                        break
                if kwargs.get("device") is not None:
                    kwargs = {**kwargs, "device": self.device(kwargs["device"])}
                return func(*args, **kwargs)
            return func(*args)
        finally:
            world.calls -= 1
            self.calling = before

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Autograd's engine runs, and code of the program in it."""
        calls, self._world.calls = self._world.calls, 0
        before, self.calling = self.calling, None
        try:
            if calls:
                with self:
                    yield
            else:
                yield
        finally:
            self._world.calls, self.calling = calls, before

    def standing(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """With fakes for the tensors from outside."""
        return tuple([self._adopted(arg) for arg in args])

    def device(self, given: Any) -> torch.device:
        """The device that a program names.

        Raises:
            CannotSimulate: there is none such.
            StartAgain: the program names CUDA after it made tensors without a device.
        """
        if given is UNPLACED or isinstance(given, DeviceName):
            return UNPLACED  # a world around this one sees that the program does not name it
        found = CUDA if isinstance(given, int) else torch.device(given)
        index = given if isinstance(given, int) else found.index
        if found.type == "cpu":
            return CPU
        if found.type == "cuda" and index in (None, 0):
            self._world.observer.named()
            return CUDA
        raise CannotSimulate(
            f"the simulated backend has one device, 'cuda', and no {str(given)!r}; use another"
            " backend for that"
        )

    def _attribute(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Of a tensor from outside, or set to one."""
        name, (owner, *values) = func.__self__.__name__, args
        if func.__name__ == "__set__":
            return setattr(self._adopted(owner), name, *map(self._adopted, values))
        if name not in _ANSWERED and self._adoption.known(owner) is None:
            return func(*args)
        return getattr(self._adopted(owner), name)

    def _adopted(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            if getattr(arg, "fake_mode", None) is self._world or _is_wrapped(arg):
                return arg
            return self._adoption.adopted(arg)
        if type(arg) in (list, tuple):
            for item in arg:
                if isinstance(item, (torch.Tensor, list, tuple)):
                    return type(arg)([self._adopted(item) for item in arg])
        return arg

    def _made(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the tensor of a factory, on the device that the program names, or on CUDA."""
        first = args[0] if args else kwargs.get("data")
        given = kwargs.get("device")
        if given is None and isinstance(first, torch.Tensor):
            return func(*args, **kwargs)  # on the device of that tensor
        world = self._world
        if given is None:
            given = torch.utils._device.CURRENT_DEVICE
        pinned = kwargs.get("pin_memory")
        if pinned:
            kwargs = {**kwargs, "pin_memory": False}
        if given is not None:
            device = self.device(given)
        elif world.placing or pinned or _is_number(func, args, kwargs):
            device = CPU
        else:
            device, world.unplaced = UNPLACED, True
        world.told += 1
        try:
            made = func(*args, **{**kwargs, "device": device})
        finally:
            world.told -= 1
        if isinstance(given, DeviceName):
            made.__dict__["_fake_device"] = CUDA  # a program that copies this device names it
        return made

    def _to(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """``Tensor.to``, in all its forms."""
        device = kwargs.pop("device", None)
        rest = list(args)
        if rest and (other := rest[0]) is not None:
            if isinstance(other, torch.Tensor):
                rest[0] = other.dtype
                device = getattr(other, "fake_device", CUDA)
            elif isinstance(other, (str, torch.device, int)):
                device = rest.pop(0)
        elif rest:
            rest.pop(0)
        kwargs.pop("non_blocking", None)
        if rest and isinstance(rest[0], torch.dtype):
            kwargs["dtype"] = rest.pop(0)
            rest = rest[1:] if rest else rest
        if rest:
            kwargs["copy"] = rest[-1]
        return self._moved(tensor, None if device is None else self.device(device), **kwargs)

    def _moved(self, tensor: Any, device: torch.device | None, **kwargs: Any) -> Any:
        if device is None or tensor.fake_device == device:
            if device == CUDA and self._adoption.stands_for_another(tensor):
                kwargs["copy"] = True  # of what was on the host until now
            return torch.Tensor.to(tensor, kwargs.pop("dtype", tensor.dtype), **kwargs)
        return torch.Tensor.to(tensor, device=device, **kwargs)


def _is_number(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    first = args[0] if args else kwargs.get("data", kwargs.get("size"))
    if func in _OF_NUMBERS:
        return isinstance(first, (int, float, complex))
    return func in _SIZED and isinstance(first, (tuple, list)) and len(first) == 0
