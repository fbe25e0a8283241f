"""Moves of tensors between the host and the device, in every form that a program writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch

from .call_arguments import names_meta, target
from .changed_tensors import set_data
from .fake_tensor import CPU, CUDA
from .meta_tensors import is_meta, leaves_meta, on_meta
from .transforms import unwrapped

if TYPE_CHECKING:
    from .fake_converter import FakeConverter

_TO = torch.Tensor.to  # outside measured bodies, another function has its place
_TYPE = torch.Tensor.type
#: Reads the arguments of ``Module.to``.
_PARSE_TO = torch._C._nn._parse_to
#: The dtypes by the names of the types of tensors, without ``Tensor``.
TYPES: Final = MappingProxyType(
    {
        **{"Float": torch.float32, "Double": torch.float64, "Half": torch.float16},
        **{"BFloat16": torch.bfloat16, "Byte": torch.uint8, "Char": torch.int8},
        **{"Short": torch.int16, "Int": torch.int32, "Long": torch.int64, "Bool": torch.bool},
        **{"ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128},
    }
)
NAMES: Final = MappingProxyType({dtype: name for name, dtype in TYPES.items()})


class Moves:
    """Moves tensors; ``device`` returns the device that a program names."""

    def __init__(self, device: Callable[[Any], torch.device], converter: FakeConverter) -> None:
        self._device = device
        self._converter = converter
        self.functions: Mapping[Any, Callable[..., Any]] = {
            torch.Tensor.to: self.to,
            torch.Tensor.cuda: self.to_cuda,
            torch.Tensor.cpu: lambda tensor, *_, **__: self.move(tensor, CPU),
            torch.Tensor.type: self.to_type,
            torch.Tensor.data.__set__: set_data,  # type: ignore[attr-defined]
            _PARSE_TO: self.parsed,
        }
        """The moves by the functions that a program calls."""

    def to(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs ``Tensor.to`` for every form of its arguments."""
        if is_meta(tensor):
            leaves_meta(torch.Tensor.to, (tensor, *args), kwargs)
        elif names_meta(kwargs.get("device", args[0] if args else None)):
            return on_meta(tensor, kwargs.get("dtype"))
        device, kwargs = target(args, kwargs)
        return self.move(tensor, None if device is None else self._device(device), **kwargs)

    def parsed(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns the device, the dtype and the rest that the arguments of ``Module.to`` name.

        It names the device, because ``Module.to`` looks at a parameter before it moves it.
        """
        given = args[0] if args else kwargs.get("tensor", kwargs.get("device"))
        device, *rest = parse_to(*args, **kwargs)
        if isinstance(given, torch.Tensor):  # C++ code sees it on another device
            given = device = unwrapped(given).device
        named = device is not None and not names_meta(device)
        return self._device(given) if named else device, *rest

    def to_cuda(self, tensor: Any, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
        """Runs ``Tensor.cuda``."""
        device = self._device(CUDA if device is None else device)
        return self.move(tensor, device, non_blocking=non_blocking)

    def to_type(
        self, tensor: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any
    ) -> Any:
        """Runs ``Tensor.type``: returns the name of the type, or a tensor of another type."""
        inner = unwrapped(tensor)
        if dtype is None:
            if is_meta(inner) or inner.dtype not in NAMES:
                return _TYPE(tensor)
            where = "torch.cuda" if inner.is_cuda else "torch"
            return f"{where}.{NAMES[inner.dtype]}Tensor"
        if isinstance(dtype, torch.dtype):
            return self.to(tensor, dtype=dtype, non_blocking=non_blocking)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        where, _, kind = name.rpartition(".")
        wanted = TYPES.get(kind.removesuffix("Tensor"))
        if wanted is None or where not in ("torch", "torch.cuda"):
            return _TYPE(tensor, dtype, non_blocking, **kwargs)  # C++ code has the error
        device = CUDA if where == "torch.cuda" else CPU
        return self.to(tensor, device, wanted, non_blocking=non_blocking)

    def move(self, tensor: Any, device: torch.device | None, **kwargs: Any) -> Any:
        """Returns the tensor on a device; None leaves it where it is."""
        if device is None or unwrapped(tensor).device == device:
            if device is CUDA and self._converter.is_converted(tensor):
                kwargs["copy"] = True  # the tensor was on the host until now
            return _TO(tensor, kwargs.pop("dtype", tensor.dtype), **kwargs)
        moved = _TO(tensor, device=device, **kwargs)
        if device == CPU and kwargs.get("non_blocking"):
            self._converter.pinned_memory.note(moved.untyped_storage())
        return moved

    def name_target(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Names the device of a move before the moved tensor is given a device."""
        given = kwargs.get("device", args[1] if len(args) > 1 else None)
        if func is torch.Tensor.cuda:
            given = CUDA
        if isinstance(given, (str, torch.device, int)) and not isinstance(given, bool):
            self._device(given)


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Returns the same of any device; for a number, C++ code asks for the accelerator."""
    named = {name: _of_number(value) for name, value in kwargs.items()}
    return _PARSE_TO(*map(_of_number, args), **named)


def _of_number(given: Any) -> Any:
    """Returns the device that a number names; another argument is returned as it is."""
    return torch.device("cuda", given) if type(given) is int else given
