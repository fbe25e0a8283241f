"""Calls of PyTorch's functions that are one known operator, and are made again without C++ code.

From a program's ``a @ b`` to its operators, C++ code asks Python for the same things at each call.
Where no gradient is recorded and no other mode watches, that ends in the same operators for the
same sizes, strides and dtypes. So the second such call runs its one operator at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from types import BuiltinFunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.autograd import forward_ad

from ...values.repeated_note import RepeatedNote, repeated_note
from .cached_op import CachedOp, CachedOutput
from .deterministic_ops import algorithms
from .fake_tensor import CUDA, IMPLICIT_CUDA, SimulatedTensor
from .known_calls import keep
from .op_kinds import is_factory
from .op_plan import AllocationPlan, Output

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .observer import DispatchedOp

#: Composites that choose their operators by sizes and strides alone.
_PRODUCTS: Final = frozenset({"matmul", "linear"})
#: Types of arguments other than tensors; a generator, for one, is not the same at each call.
_PLAIN: Final = frozenset({int, float, bool, str, type(None), torch.dtype, torch.memory_format})
_SEQUENCES: Final = frozenset({list, tuple, torch.Size})
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
_default_dtype = torch.get_default_dtype
_graph_task = torch._C._current_graph_task_id
_DisableTorchDispatch = torch._C._DisableTorchDispatch
_DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass


class RepeatedCall(NamedTuple):
    """A call that is one operator, on the storages of its own arguments."""

    func: Any
    """The operator."""
    operands: tuple[tuple[int, Any], ...]
    """For each argument of the operator the position among those of the call, or -1 and itself."""
    kwargs: dict[str, Any]
    cached: CachedOp
    view: CachedOutput | None
    """The view of the operator's result that the call returns; None: the result itself."""
    new: NewTensor | None
    """What is known besides if the operator makes a new tensor on the device."""


class NewTensor(NamedTuple):
    """A call whose result has a new storage, to which nothing else refers."""

    note: RepeatedNote
    places: tuple[int, ...]
    """The positions of the operator's tensors among the arguments of the call."""
    made: CachedOutput
    """The result of the operator."""
    returned: CachedOutput
    """The result of the call: that, or a view of all of it."""
    plan: AllocationPlan | None
    """None: it allocates the result alone."""


class RepeatedCalls:
    """The known calls of one simulation."""

    def __init__(self, fake_mode: SimulatedFakeMode, unlike: frozenset[Any]) -> None:
        self._fake_mode = fake_mode
        self._unlike = {*unlike}
        """Functions whose calls are something else: views, say, or calls that change a tensor."""
        self._calls = fake_mode.op_cache.known.functions

    def run(
        self, func: Any, args: tuple[Any, ...], kwargs: Any, otherwise: Callable[..., Any]
    ) -> Any:
        """Returns what the function returns; ``otherwise`` calls it if the call is not known."""
        if func in self._unlike:
            return otherwise(func, args, kwargs)
        mode = self._fake_mode
        with _DisableTorchFunctionSubclass():  # each attribute of a tensor takes half as long
            key = self._key(func, args, kwargs)
            call = None if key is None else self._calls.get(key)
            new = None if call is None else call.new
            if not (
                new is None or mode.heard is not None or mode.observer.traced or _graph_task() != -1
            ):
                with _DisableTorchDispatch():
                    out = mode.op_cache.make(new.returned, ())
                    tensors = [args[place] for place in new.places]
                    mode.values.tape.repeat(new.note, tensors, out)
                mode.observer.after_new(new.note.func, tensors, out, new.made, new.plan)
                return out
        if key is None:
            return otherwise(func, args, kwargs)
        if call is None:
            return self._learn(key, func, args, kwargs, otherwise)
        operands = tuple([args[place] if place >= 0 else value for place, value in call.operands])
        with torch._C._ExcludeDispatchKeyGuard(_ABOVE_OPERATORS):
            out = mode.run_again(mode.known_ops.of(call.func), operands, call.kwargs, call.cached)
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
        mode = self._fake_mode
        parts: list[Any] = [func, _default_dtype(), algorithms()]
        if kwargs:
            parts += kwargs
            args = (*args, *kwargs.values())
        for arg in args:
            kind = type(arg)
            if kind is SimulatedTensor:
                own, dtype = arg.__dict__, arg.dtype
                if arg.requires_grad or arg.is_neg() or dtype.is_complex:
                    return None
                if own["constant"] is not None or own["fake_mode"] is not mode:
                    return None
                if mode.op_cache.has_zeros and arg._is_zerotensor():
                    return None
                device = own["_fake_device"]
                where = 0 if device is IMPLICIT_CUDA else 1 if device is CUDA else device.type
                parts.append((arg.shape, arg.stride(), dtype, arg.storage_offset(), where))
            elif kind in _SEQUENCES:
                if _has_tensors(arg):
                    return None
                parts.append((kind, *map(type, arg), *arg))
            elif kind not in _PLAIN or (kind is float and not arg):  # -0.0 is equal to 0.0
                return None
            else:
                parts.append(kind)
                parts.append(arg)
        return tuple(parts)

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
        before, mode.heard = mode.heard, (heard := _Heard(func, args))
        try:
            made = otherwise(func, args, kwargs)
        finally:
            mode.heard = before
        if not heard.is_one(func):
            self._unlike.add(func)
        elif (call := self._call(heard, made)) is not None:
            keep(self._calls, key, call)
        return made

    def _call(self, heard: _Heard, made: Any) -> RepeatedCall | None:
        """Returns the call that the operator is; None if it cannot be made again from sizes."""
        mode, cached = self._fake_mode, heard.cached
        if cached is None or cached.container is not None or cached.plan is ...:
            return None
        if heard.operands is None or type(made) is not SimulatedTensor or made._is_view():
            return None
        if made.untyped_storage()._cdata != heard.storage:
            return None
        with torch._C._ExcludeDispatchKeyGuard(_ABOVE_OPERATORS):
            result = mode.op_cache.described(made, ())
        if result is None:
            return None
        view = None if result == cached.outputs[0] else result._replace(source=0)
        facts = mode.known_ops.of(heard.func)
        if facts.reads_cudnn:  # its settings are not in the key
            return None
        call = RepeatedCall(heard.func, heard.operands, heard.kwargs, cached, view, None)
        return call if facts.view else call._replace(new=_new_tensor(call, result))


def _new_tensor(call: RepeatedCall, result: CachedOutput) -> NewTensor | None:
    """Returns what is known of a call if it makes a new tensor; ``result`` is its result."""
    made, plan = call.cached.outputs[0], call.cached.plan
    if not isinstance(made, CachedOutput) or made.source >= 0:
        return None
    if result.device.type != "cuda" or not isinstance(plan, tuple):
        return None
    tensors = [(at, place) for at, (place, _) in enumerate(call.operands) if place >= 0]
    args = tuple([value for _, value in call.operands])
    at = tuple([at for at, _ in tensors])
    note = repeated_note(call.func, args, at, call.kwargs, call.cached.layouts)
    if note is None:
        return None
    places = tuple([place for _, place in tensors])
    return NewTensor(note, places, made, result, None if plan == (Output(0),) else plan)


class _Heard:
    """The operators that a call has run, as far as they matter; it keeps no tensor alive."""

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.func: Any = None
        """The last operator that was no view."""
        self.cached: CachedOp | None = None
        self.operands: tuple[tuple[int, Any], ...] | None = None
        self.kwargs: dict[str, Any] = {}
        self.storage = 0
        """The address of its result's storage."""
        self._count = 0
        self._in_place = False
        tensors = [(place, arg) for place, arg in enumerate(args) if type(arg) is SimulatedTensor]
        self._places = [(place, arg.untyped_storage()._cdata) for place, arg in tensors]
        self._apart = len({*map(itemgetter(1), self._places)}) == len(tensors)
        """False if two arguments share a storage, as in ``x * x``."""
        # ``matmul`` of tensors with the same number of dimensions keeps their order.
        name = getattr(function, "__name__", "")
        self._in_order = name not in _PRODUCTS or (
            name == "matmul" and len({arg.dim() for _, arg in tensors}) == 1
        )

    def note(self, op: DispatchedOp) -> None:
        """Notes an operator."""
        outputs = () if op.cached is None else op.cached.outputs
        if outputs and all(type(one) is CachedOutput and one.source >= 0 for one in outputs):
            return  # a view, or ``_unsafe_view``: it allocates and writes nothing
        self._count += 1
        self._in_place |= op.in_place
        self.func, self.cached, self.kwargs = op.func, op.cached, {**op.kwargs}
        self.operands = self._operands(op)
        if type(op.out) is SimulatedTensor:
            self.storage = op.out.untyped_storage()._cdata

    def _operands(self, op: DispatchedOp) -> tuple[tuple[int, Any], ...] | None:
        """Returns the arguments of an operator by those of the call; None if that is not certain.

        If two share a storage, the operator must read as many tensors, in the same order.
        """
        if _has_tensors(op.kwargs.values()) or not (self._apart or self._in_order):
            return None
        operands: list[tuple[int, Any]] = []
        left = [*self._places]
        for value in op.args:
            if type(value) is SimulatedTensor:
                storage = value.untyped_storage()._cdata
                found = next((at for at in left if at[1] == storage), None)
                if found is None or not (self._apart or found is left.pop(0)):
                    return None
                operands.append((found[0], None))
            elif isinstance(value, (list, tuple)) and _has_tensors(value):
                return None
            else:
                operands.append((-1, value))
        return tuple(operands) if self._apart or not left else None

    def is_one(self, func: Any) -> bool:
        """Returns True if the function is one operator that makes a new tensor.

        Python code may do anything besides, and other composites read settings.
        """
        if type(func) not in (BuiltinFunctionType, MethodDescriptorType):
            return False
        if self._count != 1 or self._in_place:
            return False
        if self.func._schema.is_mutable or is_factory(self.func):
            return False
        name = self.func._schema.name.removeprefix("aten::")
        return func.__name__ == name or func.__name__ in _PRODUCTS


def _has_tensors(values: Iterable[Any]) -> bool:
    return any(isinstance(value, (torch.Tensor, list, tuple)) for value in values)
