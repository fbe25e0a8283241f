"""Calls of PyTorch's functions that are one known operator, and are made again without C++ code.

From a program's ``a @ b`` to its operators, C++ code asks Python for the same things at each call.
Where no gradient is recorded and no other mode watches, that ends in the same operators for the
same sizes, strides and dtypes. So the second such call runs its one operator at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.autograd import forward_ad

from .cached_op import CachedOp, CachedOutput
from .fake_tensor import SimulatedTensor
from .op_kinds import is_factory

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .observer import DispatchedOp
    from .op_facts import OpFacts

#: Composites that choose their operators by sizes and strides alone.
_PRODUCTS: Final = frozenset({"matmul", "linear"})
#: Types of arguments other than tensors; a generator, for one, is not the same at each call.
_PLAIN: Final = frozenset(
    {int, float, bool, str, type(None), list, tuple, torch.Size, torch.dtype, torch.memory_format}
)
#: What an operator has passed by the time that it reaches the fake mode.
_ABOVE_OPERATORS: Final = (
    torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    .add(torch._C.DispatchKey.PythonTLSSnapshot)
    .add(torch._C.DispatchKey.ADInplaceOrView)
)
#: The functions before the simulation replaces them.
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_is_autocast = torch._C._is_any_autocast_enabled
_transforms = torch._C._functorch.peek_interpreter_stack
_in_inference_mode = torch.is_inference_mode_enabled


class RepeatedCall(NamedTuple):
    """A call that is one operator, on the storages of its own arguments."""

    facts: OpFacts
    operands: tuple[tuple[int, Any], ...]
    """For each argument of the operator the position among those of the call, or -1 and itself."""
    kwargs: dict[str, Any]
    cached: CachedOp
    view: CachedOutput | None
    """The view of the operator's result that the call returns; None: the result itself."""


class RepeatedCalls:
    """The known calls of one simulation."""

    def __init__(self, fake_mode: SimulatedFakeMode, unlike: frozenset[Any]) -> None:
        self._fake_mode = fake_mode
        self._unlike = {*unlike}
        """Functions whose calls are something else: views, say, or calls that change a tensor."""
        self._calls: dict[Any, RepeatedCall] = {}

    def run(
        self, func: Any, args: tuple[Any, ...], kwargs: Any, otherwise: Callable[..., Any]
    ) -> Any:
        """Returns what the function returns; ``otherwise`` calls it if the call is not known."""
        key = None if func in self._unlike else self._key(func, args, kwargs)
        if key is None:
            return otherwise(func, args, kwargs)
        call = self._calls.get(key)
        if call is None:
            return self._learn(key, func, args, kwargs, otherwise)
        mode = self._fake_mode
        operands = tuple([args[place] if place >= 0 else value for place, value in call.operands])
        with torch._C._ExcludeDispatchKeyGuard(_ABOVE_OPERATORS):
            out = mode.run_again(call.facts, operands, call.kwargs, call.cached)
            return out if call.view is None else mode.op_cache.make(call.view, (out,))

    def _key(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any | None:
        """Returns all that the operators of the call depend on; None if that may be more."""
        if (
            _dispatch_modes() != 1
            or _function_modes()
            or _is_autocast()
            or _in_inference_mode()
            or _transforms() is not None
            or forward_ad._current_level >= 0
        ):
            return None
        for arg in args if not kwargs else (*args, *kwargs.values()):
            kind = type(arg)
            if kind is SimulatedTensor:
                if arg.requires_grad or arg.is_neg():
                    return None
            elif kind not in _PLAIN or (kind in (list, tuple) and _has_tensors(arg)):
                return None
        return self._fake_mode.op_cache.key_of(func, args, kwargs)

    def _learn(
        self,
        key: Any,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Any,
        otherwise: Callable[..., Any],
    ) -> Any:
        """Calls the function, and keeps the call if it is one operator."""
        mode = self._fake_mode
        before, mode.ran = mode.ran, []
        try:
            made = otherwise(func, args, kwargs)
            ran = mode.ran
        finally:
            mode.ran = before
        kernel = _kernel(func, ran)
        if kernel is None:
            self._unlike.add(func)
        elif (call := self._call(kernel, made, args)) is not None:
            self._calls[key] = call
        return made

    def _call(self, kernel: DispatchedOp, made: Any, args: tuple[Any, ...]) -> RepeatedCall | None:
        """Returns the call that the operator is; None if its tensors may be other ones."""
        cached, mode = kernel.cached, self._fake_mode
        if cached is None or cached.container is not None or cached.plan is ...:
            return None
        operands = _operands(kernel, args)
        if operands is None or type(made) is not SimulatedTensor or made._is_view():
            return None
        view = None
        if made is not kernel.out:
            view = mode.op_cache.described(made, (kernel.out,))
            if view is None or view.source < 0:
                return None
        facts = mode.known_ops.of(kernel.func)
        return RepeatedCall(facts, operands, {**kernel.kwargs}, cached, view)


def _kernel(func: Any, ran: list[DispatchedOp]) -> DispatchedOp | None:
    """Returns the one operator that makes a new tensor; None if the call is not one operator."""
    if type(func) not in (BuiltinFunctionType, MethodDescriptorType):
        return None  # Python code, which may do anything
    kernels = [op for op in ran if not _is_view(op)]
    if len(kernels) != 1:
        return None
    func_of = kernels[0].func
    name = func_of._schema.name.removeprefix("aten::")
    if func_of._schema.is_mutable or is_factory(func_of) or kernels[0].in_place:
        return None
    return kernels[0] if func.__name__ == name or func.__name__ in _PRODUCTS else None


def _is_view(op: DispatchedOp) -> bool:
    """Returns True if the operator, a view or ``_unsafe_view``, allocates and writes nothing."""
    outputs = () if op.cached is None else op.cached.outputs
    return bool(outputs) and all(type(o) is CachedOutput and o.source >= 0 for o in outputs)


def _operands(kernel: DispatchedOp, args: tuple[Any, ...]) -> tuple[tuple[int, Any], ...] | None:
    """Returns the arguments of an operator by those of the call.

    Returns None if two of them share a storage, or the operator reads another one.
    """
    places = {
        arg.untyped_storage()._cdata: place
        for place, arg in enumerate(args)
        if type(arg) is SimulatedTensor
    }
    tensors = [arg for arg in args if type(arg) is SimulatedTensor]
    if len(places) != len(tensors) or _has_tensors(kernel.kwargs.values()):
        return None
    operands = []
    for value in kernel.args:
        if type(value) is SimulatedTensor:
            place = places.get(value.untyped_storage()._cdata, -1)
            if place < 0:
                return None
            operands.append((place, None))
        elif isinstance(value, (list, tuple)) and _has_tensors(value):
            return None
        else:
            operands.append((-1, value))
    return tuple(operands)


def _has_tensors(values: Iterable[Any]) -> bool:
    return any(isinstance(value, (torch.Tensor, list, tuple)) for value in values)
