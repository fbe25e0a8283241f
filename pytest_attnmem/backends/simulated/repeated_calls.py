"""Calls of PyTorch's functions that are one known operator, and are made again without C++ code.

From a program's ``a @ b`` to its operators, C++ code asks Python for the same things at each call.
Where no gradient is recorded and no other mode watches, that ends in the same operators for the
same sizes, strides and dtypes. So the second such call runs its one operator at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, EllipsisType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.autograd import forward_ad

from .cached_op import CachedOp, CachedOutput
from .fake_tensor import SimulatedTensor
from .op_cache import MOST
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
    new: bool
    """True if the operator makes a new tensor on the device."""
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
            out = self._made(call, operands)
            return out if call.view is None else mode.op_cache.make(call.view, (out,))

    def _made(self, call: RepeatedCall, operands: tuple[Any, ...]) -> Any:
        """Returns the result of the call's operator, which is noted and counted."""
        mode, facts, cached = self._fake_mode, call.facts, call.cached
        observer, output = mode.observer, cached.outputs[0]
        heard = mode.heard is not None or torch._C._current_graph_task_id() != -1
        if not call.new or heard or observer.traced or not isinstance(output, CachedOutput):
            return mode.run_again(facts, operands, call.kwargs, cached)
        tape = mode.values.tape
        noted = tape.begin(facts.func, operands, call.kwargs, cached.layouts)
        out = mode.op_cache.make(output, operands)
        tape.end(noted, out)
        plan = () if isinstance(cached.plan, EllipsisType) else cached.plan  # it has one by now
        observer.after_new(facts.func, operands, out, plan)
        return out

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
        before, mode.heard = mode.heard, (heard := _Heard(args))
        try:
            made = otherwise(func, args, kwargs)
        finally:
            mode.heard = before
        if not heard.is_one(func):
            self._unlike.add(func)
        elif (call := self._call(heard, made)) is not None:
            if len(self._calls) >= MOST:
                self._calls.clear()
            self._calls[key] = call
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
        output = cached.outputs[0]
        new = isinstance(output, CachedOutput) and output.source < 0
        new = new and result.device.type == "cuda" and not facts.view
        return RepeatedCall(facts, heard.operands, heard.kwargs, cached, new, view)


class _Heard:
    """The operators that a call has run, as far as they matter; it keeps no tensor alive."""

    def __init__(self, args: tuple[Any, ...]) -> None:
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
        self._places = {arg.untyped_storage()._cdata: place for place, arg in tensors}
        self._apart = len(self._places) == len(tensors)

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
        """Returns the arguments of an operator by those of the call.

        Returns None if two of them share a storage, or the operator reads another one.
        """
        if not self._apart or _has_tensors(op.kwargs.values()):
            return None
        operands = []
        for value in op.args:
            place = -1
            if type(value) is SimulatedTensor:
                place = self._places.get(value.untyped_storage()._cdata, -1)
                if place < 0:
                    return None
            elif isinstance(value, (list, tuple)) and _has_tensors(value):
                return None
            operands.append((place, None if place >= 0 else value))
        return tuple(operands)

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
