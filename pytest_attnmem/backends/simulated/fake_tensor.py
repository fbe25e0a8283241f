"""Fake tensors that stand for a CUDA device's on any build of PyTorch.

To Python they are on ``cuda:0``, with CUDA's dispatch keys, so that programs and PyTorch's own
Python code treat them as such. To PyTorch's C++ code, which cannot do without a device guard for
the devices it meets, they are on ``meta``, where it has one; what C++ code then makes on ``meta``
is made on the device. Backward passes run in the calling thread.

This package is the one place for the private APIs that it takes (written against torch 2.13).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .hidden_fakes import asked_by_torch
from .simulated_device import DeviceName

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode


DEVICE = DeviceName("cuda:0")
#: The device of tensors that are on it only because the program names no device. It equals
#: ``CUDA``, but is another object, which tells the two apart.
UNPLACED = torch.device("cuda", 0)
CUDA, META, CPU = torch.device("cuda", 0), torch.device("meta"), torch.device("cpu")
PRINTING = "printing a tensor"
DEVICE_OF = torch.ops.prim.device.default


def _world(tensor: Any) -> SimulatedFakeMode:
    return tensor.__dict__["fake_mode"]  # type: ignore[no-any-return]


def _hidden(found: Any, name: str) -> property:
    """Returns an attribute that torch finds and a program does not, as on a device's tensors."""

    def get(self: Any) -> Any:
        if asked_by_torch(_world(self).askers):
            return found(self)
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    def put(self: Any, value: Any) -> None:
        self.__dict__[name if name == "fake_mode" else "_" + name] = value

    return property(get, put)


class SimulatedTensor(torch.Tensor):
    """A tensor without data, on the device or on the host.

    A program takes it for a plain tensor: it is not a subclass of FakeTensor. Only code of torch,
    which needs a FakeTensor, is told that it is one.
    """

    if TYPE_CHECKING:
        _fake_device: torch.device
        constant: Any
    else:
        __class__ = property(
            lambda self: FakeTensor if asked_by_torch(_world(self).askers) else torch.Tensor
        )
        for _name in vars(FakeTensor).keys() - vars(type("", (), {})).keys():
            locals()[_name] = vars(FakeTensor)[_name]
        __qualname__, __module__ = "Tensor", "torch"

    fake_mode = _hidden(_world, "fake_mode")
    fake_device = _hidden(lambda self: self._fake_device, "fake_device")
    device = property(lambda self: META if _world(self).in_kernel_invocation else self._fake_device)
    is_cuda = property(lambda self: self._fake_device.type == "cuda")
    is_cpu = property(lambda self: self._fake_device.type == "cpu")
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        """The device's number; -1 on the host."""
        return 0 if self._fake_device.type == "cuda" else -1

    def record_stream(self, stream: Any) -> None:
        """Its memory is used on that stream too."""
        _world(self).observer.used_on(self, stream.stream_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError(
                    "Only Tensors created explicitly by the user (graph leaves) support the"
                    " deepcopy protocol at the moment."
                )
            with torch.no_grad():
                memo[id(self)] = copy = self.detach().clone()
            copy.requires_grad_(self.requires_grad)
            if getattr(self, "_is_param", False):
                copy._is_param = True
            if self.grad is not None:
                copy.grad = deepcopy(self.grad, memo)
        return memo[id(self)]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is DEVICE_OF:
            return seen_by_cpp(args[0])
        dispatch = FakeTensor.__torch_dispatch__.__func__  # type: ignore[attr-defined]
        kinds = [FakeTensor if issubclass(kind, SimulatedTensor) else kind for kind in types]
        return dispatch(FakeTensor, func, kinds, args, kwargs or {})

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """There are no values to give."""
        raise _world(self).observer.refusal("Tensor.numpy")

    def tolist(self) -> Any:
        """What is known of the host's, and of no other."""
        if self.constant is None:
            raise _world(self).observer.refusal("Tensor.tolist")
        return self.constant.tolist()

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _world(self).observer.refusal("numpy")

    def data_ptr(self) -> int:
        """There is no memory to point to."""
        raise _world(self).observer.refusal("Tensor.data_ptr")

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        if _world(self).running:
            raise _world(self).observer.refusal(PRINTING)
        where = f"device='{self._fake_device}', size={tuple(self.shape)}, dtype={self.dtype}"
        return f"tensor(simulated, {where})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


SimulatedTensor.__name__ = "Tensor"


def seen_by_cpp(tensor: Any) -> torch.device:
    """The device that PyTorch's C++ code is told."""
    if tensor.fake_mode.in_kernel_invocation or tensor._fake_device.type == "cuda":
        return META
    return tensor._fake_device  # type: ignore[no-any-return]


def simulate(tensor: Any, made_of: Any) -> None:
    """Make a FakeTensor that an operator returns a simulated one, on the device of its arguments.

    FakeTensor keeps a device that equals the one it is given, and is another object.
    """
    tensor.__class__ = SimulatedTensor
    if tensor.device.type == "cuda":
        tensor.__dict__["_fake_device"] = CUDA if _is_placed(made_of) else UNPLACED


def _is_placed(made_of: Any) -> bool:
    """Returns True if the program placed a tensor or a device among the arguments."""
    for value in made_of.values() if isinstance(made_of, dict) else made_of:
        if isinstance(value, (tuple, list, dict)):
            if _is_placed(value):
                return True
        elif value is CUDA or (type(value) is SimulatedTensor and value._fake_device is CUDA):
            return True
    return False
