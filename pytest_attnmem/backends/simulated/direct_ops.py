"""Operators that run on ``meta`` at once, without the general path of PyTorch's fake mode.

That path takes ten times as long, and imports the compiler and sympy. For most operators it only
runs the kernel of ``meta`` (``FakeTensorMode._dispatch_impl`` of torch/_subclasses/fake_tensor.py,
from "run kernel registered to meta" on), which is what this module does; for the others it returns
NotImplemented.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final

import torch
from torch._decomp import decomposition_table, meta_table
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import (
    FakeTensorMode,
    in_kernel_invocation_manager,
    should_allow_numbers_as_tensors,
    torch_decomp_decompositions,
)
from torch.utils._mode_utils import no_dispatch

from .fake_maker import FakeMaker
from .fake_tensor import CPU, CUDA, IMPLICIT_CUDA, META, SimulatedTensor
from .shape_rules import LAYOUTS

_aten = torch.ops.aten

#: Operators with Python code in the fake mode, for symbolic sizes, values or other devices, whose
#: kernel gives the same tensors. CUDA shares its rule of sizes, or the kernel is a view.
_SAME_IN_KERNEL: Final = frozenset(
    {
        *(_aten.view.default, _aten._unsafe_view.default, _aten.select.int, _aten.slice.Tensor),
        *(_aten.split.Tensor, _aten.squeeze.dim, _aten.squeeze.dims, _aten.squeeze.default),
        *(_aten.sum.default, _aten._softmax.default, _aten._softmax_backward_data.default),
        _aten._log_softmax.default,
        *(_aten.nll_loss_forward.default, _aten.nll_loss_backward.default),
        *(_aten.embedding.default, _aten.copy_.default, _aten.uniform_.default),
        *(_aten.nonzero_static.default, _aten.gelu_backward.default),
        *(_aten.silu_backward.default, _aten.zero_.default),
    }
)
#: Factories of random values, whose kernels for ``meta`` are slow Python code.
_RANDOM: Final = frozenset(
    {
        *(_aten.rand.default, _aten.rand.generator, _aten.randn.default, _aten.randn.generator),
    }
)
#: PyTorch has no rule of sizes for these; the fake mode would run them on tensors with data.
_FUSED_STEPS: Final = frozenset(
    getattr(packet, overload)
    for packet in (
        _aten._fused_sgd_,
        _aten._fused_adagrad_,
        _aten._fused_adam_,
        _aten._fused_adamw_,
    )
    for overload in packet.overloads()
    if overload == "tensor_lr" or packet in (_aten._fused_sgd_, _aten._fused_adagrad_)
)
_COPY: Final = _aten._to_copy.default
_READ: Final = _aten._local_scalar_dense.default
_NOT_DIRECT: Final = frozenset(
    {
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.inplace_view,
    }
)


class _Kind(Enum):
    """The ways to run an operator."""

    GENERAL = auto()
    KERNEL = auto()
    COPY = auto()
    DECOMPOSED = auto()
    """Python code, which may ask if its tensors are on the host, or is for the device alone."""
    FACTORY = auto()
    IN_PLACE_LISTS = auto()
    """A ``_foreach_`` operator, whose kernel is Python code that runs once a tensor."""
    IN_PLACE = auto()
    """A fused step of an optimizer, which returns nothing, and of which some lack a rule."""
    LIFT = auto()
    READ = auto()


class DirectOps:
    """Runs the operators of one fake mode that need nothing but their kernel for ``meta``."""

    def __init__(self, fake_mode: FakeTensorMode, maker: FakeMaker) -> None:
        self._fake_mode = fake_mode
        self._maker = maker
        self._kinds: dict[Any, _Kind] = {}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the outputs; NotImplemented if the fake mode must run the operator."""
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = self._kind(func)
        if kind is _Kind.GENERAL:
            return NotImplemented
        if kind is _Kind.LIFT:
            return self._lift(args[0])
        if kind is _Kind.READ:
            return _read(args[0])
        if kind is _Kind.COPY:
            return self._copy(args[0], kwargs)
        if kind is _Kind.IN_PLACE:
            return None
        device = _common_device(args, kwargs, func, kind is _Kind.FACTORY)
        if device is None or (kind is _Kind.DECOMPOSED and device.type == "cpu"):
            return NotImplemented
        if kind is _Kind.IN_PLACE_LISTS and _alike(args):
            return None
        if kind is _Kind.FACTORY:
            kwargs = {**kwargs, "device": META}
        if func in _RANDOM:
            func, args = _aten.empty.memory_format, args[:1]
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        try:
            with in_kernel_invocation_manager(self._fake_mode):
                made = func(*args, **kwargs)
        except (NotImplementedError, TypeError):  # the general path knows what to make of it
            return NotImplemented
        return self._wrapped(made, device)

    def _wrapped(self, made: Any, device: torch.device) -> Any:
        if type(made) is torch.Tensor:
            return self._maker.make(made, device) if made.is_meta else NotImplemented
        if made is None or type(made) is SimulatedTensor:
            return made
        if type(made) not in (tuple, list):
            return NotImplemented
        wrapped = [self._wrapped(item, device) for item in made]
        return NotImplemented if NotImplemented in map(_kept, wrapped) else type(made)(wrapped)

    def _lift(self, real: Any) -> Any:
        """Returns the fake of a tensor that ``torch.tensor`` made, with its value if it is small.

        See ``lift_fresh`` in ``FakeTensorMode._dispatch_impl``.
        """
        plain = type(real) is torch.Tensor and real.layout is torch.strided
        if not plain or real.dim() or real.device.type != "cpu" or real.dtype.is_complex:
            return NotImplemented
        with no_dispatch():
            value = real.clone()
            fake = self._maker.make(torch.empty((), dtype=real.dtype, device=META), CPU)
        fake.__dict__["constant"] = value
        self._fake_mode.fake_tensor_converter.add_constant_storage_mapping(fake)
        return fake

    def _copy(self, tensor: Any, kwargs: Mapping[str, Any]) -> Any:
        """Returns a copy, on the device that ``kwargs`` names."""
        device = kwargs.get("device")
        known = type(tensor) is not SimulatedTensor or tensor.constant is not None
        if known and (device is None or device.type != "cuda"):
            return NotImplemented  # the copy has a known value too
        device = _common_device((tensor,), kwargs, _COPY, factory=True)
        if device is None:
            return NotImplemented
        with in_kernel_invocation_manager(self._fake_mode):
            made = _COPY(tensor, **{**kwargs, "device": META})
        return self._wrapped(made, device)

    def _kind(self, func: Any) -> _Kind:
        if func in self._fake_mode.lift_fns:
            return _Kind.LIFT
        if func is _READ:
            return _Kind.READ
        known = isinstance(func, torch._ops.OpOverload) and func.namespace == "aten"
        if not known or _NOT_DIRECT.intersection(func.tags):
            return _Kind.GENERAL
        if func in _FUSED_STEPS:
            return _Kind.IN_PLACE
        if "out" in func._overloadname.split("_") or not fake_impls.has_meta(func):
            return _Kind.GENERAL
        if func in fake_impls._like_tensor_constructors or fake_impls._is_tensor_constructor(func):
            on_device = any(argument.name == "device" for argument in func._schema.arguments)
            numbers = should_allow_numbers_as_tensors(func)
            return _Kind.FACTORY if on_device and not numbers else _Kind.GENERAL
        if func._schema.name.startswith("aten::_foreach_"):
            in_place = func._schema.is_mutable and not func._schema.returns
            return _Kind.IN_PLACE_LISTS if in_place else _Kind.KERNEL
        if func is _COPY:
            return _Kind.COPY
        if func in _SAME_IN_KERNEL:
            return _Kind.KERNEL
        if func in LAYOUTS:
            return _Kind.DECOMPOSED
        if _has_python_code(func):
            return _Kind.GENERAL
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            return _Kind.GENERAL
        return _Kind.KERNEL if self._prefers_kernel(func) else _Kind.DECOMPOSED

    def _prefers_kernel(self, func: Any) -> bool:
        """Returns True if the fake mode runs a kernel for ``meta`` and no decomposition."""
        if func in meta_table or self._fake_mode.cpp_meta_supports_symint(func):
            return True
        return not (func in decomposition_table and torch_decomp_decompositions(func))


def _kept(value: Any) -> Any:
    """Returns a value that compares by identity: tensors compare by element."""
    return None if isinstance(value, torch.Tensor) else value


def _has_python_code(func: Any) -> bool:
    found = torch._library.simple_registry.singleton.find(func.name()).fake_impl.kernel
    return bool(found) or any(takes(func) for takes, _ in fake_impls.op_implementations_checks)


def _alike(args: tuple[Any, ...]) -> bool:
    """Returns True if the arguments are lists of tensors of equal sizes and one real dtype.

    An operator on them in place can then neither fail nor change a size. Numbers may come besides.
    """
    first = args[0]
    dtype = first[0].dtype if first else torch.int64
    expected = [(tensor.shape, dtype) for tensor in first]
    for arg in args:
        if type(arg) not in (list, tuple):
            arg = [arg]
        if arg and type(arg[0]) is SimulatedTensor:
            if [(tensor.shape, tensor.dtype) for tensor in arg] != expected:
                return False
        elif not all(type(number) in (int, float) for number in arg):
            return False
    return dtype.is_floating_point


def _read(tensor: Any) -> Any:
    """Returns the value of a tensor of one element, if it is known."""
    value = tensor.constant if type(tensor) is SimulatedTensor else None
    if value is None:
        return NotImplemented
    with no_dispatch():
        return _READ(value)


def _common_device(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], func: Any, factory: bool
) -> torch.device | None:
    """Returns the device of the outputs; None if the fake mode must find it.

    It is ``CUDA`` if an input names the device, as in ``make_simulated``.
    """
    tensors: list[Any] = []
    if not (_collect(args, tensors) and _collect(kwargs.values(), tensors)):
        return None
    devices = [tensor._fake_device for tensor in tensors]
    named = kwargs.get("device")
    if factory:
        layout = kwargs.get("layout")
        if layout not in (None, torch.strided) or kwargs.get("pin_memory"):
            return None
        if named is None:
            return devices[0] if devices else CPU
        if named.type != "cuda":
            return CPU if named.type == "cpu" else None
        return CUDA if any(device is CUDA for device in (named, *devices)) else IMPLICIT_CUDA
    if named is not None or not tensors:
        return None
    on_host = [tensor for tensor in tensors if tensor._fake_device.type == "cpu"]
    known = any(tensor.constant is not None for tensor in tensors)
    if len(on_host) == len(tensors):
        return None if known else CPU
    if any(tensor.dim() for tensor in on_host) or (on_host and _may_write_host(func, args)):
        return None
    return CUDA if any(device is CUDA for device in devices) else IMPLICIT_CUDA


def _may_write_host(func: Any, args: tuple[Any, ...]) -> bool:
    """Returns True unless an operator writes nothing but its first argument, which is on CUDA."""
    if not func._schema.is_mutable:
        return False
    first = args[0] if args else None
    writes = [argument.is_write for argument in func._schema.arguments]
    return type(first) is not SimulatedTensor or first._fake_device.type == "cpu" or any(writes[1:])


def _collect(values: Iterable[Any], tensors: list[Any]) -> bool:
    """Appends the tensors; returns False if one is not simulated."""
    for value in values:
        kind = type(value)
        if kind is SimulatedTensor:
            tensors.append(value)
        elif kind is list or kind is tuple:
            if not _collect(value, tensors):
                return False
        elif issubclass(kind, torch.Tensor):
            return False
    return True
