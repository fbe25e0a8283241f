"""Fake tensors that act as CUDA tensors on any build of PyTorch.

Python sees them on ``cuda:0``, with CUDA's dispatch keys, so programs and PyTorch's own Python code
treat them as CUDA tensors. PyTorch's C++ code needs a device guard for each device, so it sees them
on ``meta``, which has one; a tensor that C++ code makes on ``meta`` is put on the device. Backward
passes run in the calling thread.

Only this package uses the private APIs of torch that this needs (written against torch 2.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

from ...errors import CannotSimulate
from .copies import deep_copy, shallow_copy
from .hidden_fakes import asked_by_torch
from .printing import printed
from .program_attributes import without_own
from .program_errors import at
from .simulated_device import DeviceName

if TYPE_CHECKING:
    from collections.abc import Callable

    from .observer import FakeMode


DEVICE = DeviceName("cuda:0")
#: The device of tensors made while the program names no device. It equals ``CUDA``; only the
#: identity of the object tells the two apart.
IMPLICIT_CUDA = torch.device("cuda", 0)
CUDA, META, CPU = torch.device("cuda", 0), torch.device("meta"), torch.device("cpu")
NO_GRADIENT = "Can't export tensors that require gradient, use tensor.detach()"
DEVICE_OF = torch.ops.prim.device.default
_set_class = vars(object)["__class__"].__set__


def _fake_mode(tensor: Any) -> FakeMode:
    return tensor.__dict__["fake_mode"]  # type: ignore[no-any-return]


def _hidden(read: Any, name: str) -> property:
    """Returns an attribute that torch can read and a program cannot, as on a CUDA tensor."""

    def get(self: Any) -> Any:
        if asked_by_torch(_fake_mode(self).torch_code):
            return read(self)
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    def put(self: Any, value: Any) -> None:
        self.__dict__[name if name == "fake_mode" else "_" + name] = value

    return property(get, put)


class SimulatedTensor(torch.Tensor):
    """A tensor without data, on the device or on the host.

    A program sees a plain tensor: this is not a subclass of FakeTensor. Only code of torch, which
    needs a FakeTensor, sees one.
    """

    if TYPE_CHECKING:
        _fake_device: torch.device
        constant: Any
    else:
        __class__ = property(  # FakeTensor is the class that torch saw: setting it changes nothing
            lambda self: (
                FakeTensor if asked_by_torch(_fake_mode(self).torch_code) else torch.Tensor
            ),
            lambda self, kind: kind is FakeTensor or _set_class(self, kind),
        )
        for _name in vars(FakeTensor).keys() - vars(type("", (), {})).keys():
            locals()[_name] = vars(FakeTensor)[_name]
        __qualname__, __module__ = "Tensor", "torch"

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            """Makes what ``type(x)(…)`` makes of a parameter, or else of a tensor."""
            is_parameter = "requires_grad" in kwargs or kwargs.get("_is_param")
            kind = torch.nn.Parameter if is_parameter else torch.Tensor
            return kind(*args, **without_own(kwargs))

    fake_mode = _hidden(_fake_mode, "fake_mode")
    fake_device = _hidden(lambda self: self._fake_device, "fake_device")
    device = property(
        lambda self: META if _fake_mode(self).in_kernel_invocation else self._fake_device
    )
    is_cuda = property(lambda self: self._fake_device.type == "cuda")
    is_cpu = property(lambda self: self._fake_device.type == "cpu")
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        """Returns the index of the device, or -1 on the host."""
        return 0 if self._fake_device.type == "cuda" else -1

    def record_stream(self, s: Any) -> None:
        """Records that another stream uses the tensor's memory."""
        _fake_mode(self).observer.record_stream(self, s.stream_id)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _fake_mode(self).observer.reduced(self, protocol)

    def __copy__(self) -> Any:
        return shallow_copy(self)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is DEVICE_OF:
            return seen_by_cpp(args[0])
        dispatch = FakeTensor.__torch_dispatch__.__func__  # type: ignore[attr-defined]
        kinds = [FakeTensor if issubclass(kind, SimulatedTensor) else kind for kind in types]
        return dispatch(FakeTensor, func, kinds, args, kwargs or {})

    def numpy(self, *, force: bool = False) -> Any:
        """Returns the values of a host tensor as an array; ``force`` moves it to the host first."""
        if not (force or _is_readable(self)):
            raise TypeError(
                f"can't convert {self._fake_device} device type tensor to numpy. Use Tensor.cpu()"
                " to copy the tensor to host memory first."
            )
        if not force and self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()"
                " instead."
            )
        if not force:
            return _on_host(self, "Tensor.numpy", torch.Tensor.numpy, shared=True)
        return _moved(self, "Tensor.numpy", lambda values: values.clone().numpy())

    def tolist(self) -> Any:
        """Returns the values as nested lists."""
        if self.is_cuda and _fake_mode(self).running and (self.is_conj() or self.is_neg()):
            return self.resolve_conj().resolve_neg().tolist()
        return _moved(self, "Tensor.tolist", torch.Tensor.tolist)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy().__array__(*args, **kwargs)

    def __dlpack_device__(self) -> Any:
        kinds = torch.utils.dlpack.DLDeviceType
        return (kinds.kDLCPU, 0) if _is_readable(self) else (kinds.kDLCUDA, 0)

    def __dlpack__(self, **kwargs: Any) -> Any:
        """Returns a capsule with the memory of a host tensor.

        Raises:
            CannotSimulate: the tensor is on the device, whose memory no library can read.
        """
        if self.requires_grad:
            raise BufferError(NO_GRADIENT)
        if not _is_readable(self):
            raise _fake_mode(self).observer.refused(
                f"a DLPack capsule{at()} of a tensor on the device cannot be simulated; move the"
                " tensor to the host first"
            )
        return _on_host(self, "DLPack", lambda values: values.__dlpack__(**kwargs), shared=True)

    def get_nested_int(self, *, coeff: int | torch.SymInt = 1) -> NoReturn:
        """Raises CannotSimulate: nested tensors, whose lengths this tensor has, are refused."""
        raise _fake_mode(self).observer.refused(f"a nested tensor{at()} cannot be simulated")

    def is_shared(self) -> bool:
        """Returns True on the device, and for a host tensor that was shared."""
        return self.is_cuda or "is_in_shared_memory" in self.__dict__

    def share_memory_(self) -> Any:
        """Puts a host tensor in memory that other processes may share."""
        if not self.is_shared():
            _on_host(self, "Tensor.share_memory_", torch.Tensor.share_memory_, shared=True)
            self.is_in_shared_memory = True
        return self

    def apply_(self, function: Any) -> Any:
        """Calls a function for each element of a host tensor, and sets it to the result."""
        return _by_function(self, "apply_", function)

    def map_(self, other: Any, function: Any) -> Any:
        """Does so with the elements of another tensor."""
        return _by_function(self, "map_", other, function)

    def data_ptr(self) -> int:
        """Returns the address of the first element, as the allocator places it."""
        return _fake_mode(self).observer.address(self)

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        if _fake_mode(self).in_kernel_invocation:  # C++ prints what no overload takes
            return self._described()
        try:
            shown = printed(self, _fake_mode(self))
        except CannotSimulate:
            if _fake_mode(self).running:
                raise
            return self._described()
        return f"Parameter containing:\n{shown}" if getattr(self, "_is_param", False) else shown

    def _described(self) -> str:
        where = f"device='{self._fake_device}', size={tuple(self.shape)}, dtype={self.dtype}"
        return f"tensor(simulated, {where})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self.dim() else object.__format__(self, spec)


SimulatedTensor.__name__ = "Tensor"


def _on_host(
    tensor: Any, call: str, read: Callable[[torch.Tensor], Any], *, shared: bool = False
) -> Any:
    """Returns what ``read`` makes of the values of a tensor; ``call`` names it in an error.

    ``shared`` says that the result is memory of the tensor.
    """
    values = _fake_mode(tensor).observer.value(tensor, call, shared=shared)
    with torch._C.DisableTorchFunction(), no_dispatch():
        return read(values)


def _by_function(tensor: Any, name: str, *args: Any) -> Any:
    """Runs a method that calls a function of Python for each element, which only the host does."""
    if not _is_readable(tensor):
        raise TypeError(f"{name} is only implemented on CPU tensors")
    if any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in (tensor, *args)):
        instead = f"Use var.detach().{name}() instead."
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. {instead}")
    call, read = f"Tensor.{name}", _fake_mode(tensor).observer.value
    given = [read(arg, call) if type(arg) is SimulatedTensor else arg for arg in args]
    _on_host(tensor, call, lambda values: getattr(values, name)(*given), shared=True)
    return tensor


def _is_readable(tensor: Any) -> bool:
    """Returns True for memory that libraries read and write: the host's.

    In a program that names no device, which is written for the host, that is also the device's. A
    copy of elements with gaps would take memory there.
    """
    return not tensor.is_cuda or (tensor._fake_device is IMPLICIT_CUDA and tensor.is_contiguous())


def _moved(tensor: Any, call: str, read: Callable[[torch.Tensor], Any]) -> Any:
    """Returns the same; what is not copied as it is, is made contiguous on the device first."""
    as_is = tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    if tensor.is_cuda and not as_is and _fake_mode(tensor).running:
        tensor = torch.ops.aten._to_copy.default(tensor.detach(), device=CPU)
    return _on_host(tensor, call, read)


def seen_by_cpp(tensor: Any) -> torch.device:
    """Returns the device on which PyTorch's C++ code sees the tensor."""
    attributes = tensor.__dict__
    device: torch.device = attributes["_fake_device"]
    if attributes["fake_mode"].in_kernel_invocation or device.type == "cuda":
        return META
    return device


def make_simulated(tensor: Any, inputs: Any) -> None:
    """Turns a FakeTensor that an operator returned into a simulated tensor.

    FakeTensor stores a device that equals ``CUDA`` but is another object, so the device is set
    again: ``CUDA`` if an input names it, else ``IMPLICIT_CUDA``.
    """
    tensor.__class__ = SimulatedTensor
    if tensor.device.type == "cuda":
        tensor.__dict__["_fake_device"] = CUDA if _has_explicit_device(inputs) else IMPLICIT_CUDA


def make_all_simulated(out: Any, given: Any) -> None:
    """Makes each fake among an operator's outputs a tensor of the program."""
    for leaf in out if isinstance(out, (tuple, list)) else (out,):
        for tensor in leaf if isinstance(leaf, (tuple, list)) else (leaf,):
            if type(tensor) is FakeTensor:
                make_simulated(tensor, given)


def _has_explicit_device(inputs: Any) -> bool:
    """Returns True if an input is a device that the program named, or a tensor on one."""
    for value in inputs.values() if isinstance(inputs, dict) else inputs:
        if isinstance(value, (tuple, list, dict)):
            if _has_explicit_device(value):
                return True
        elif value is CUDA or (type(value) is SimulatedTensor and value._fake_device is CUDA):
            return True
    return False
