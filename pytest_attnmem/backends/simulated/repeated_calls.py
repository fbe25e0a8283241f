"""Calls of PyTorch's functions that make new tensors, and are made again without C++ code.

From a program's ``a @ b`` to its operators, C++ code asks Python for the same things at each call.
Where no gradient is recorded and no other mode watches, that ends in the same operators for the
same sizes, strides and dtypes. So the second such call runs its operators at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.autograd import forward_ad

from .call_steps import AlikeCalls, Steps, steps_of
from .deterministic_ops import algorithms
from .fake_tensor import CUDA, IMPLICIT_CUDA, SimulatedTensor
from .heard_ops import HeardOps, has_tensors
from .known_calls import keep
from .op_cache import ALIGNED

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

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
_records = torch.is_grad_enabled
_default_dtype = torch.get_default_dtype
_as_strided = torch.as_strided
_graph_task = torch._C._current_graph_task_id
_UNKNOWN: Final = None, ()
_DisableTorchDispatch = torch._C._DisableTorchDispatch
_DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass


class RepeatedCalls:
    """The known calls of one simulation."""

    def __init__(self, fake_mode: SimulatedFakeMode, unlike: frozenset[Any]) -> None:
        self._fake_mode = fake_mode
        self._unlike = {*unlike}
        """Functions whose calls are something else: views, say, or calls that change a tensor."""
        self._known = fake_mode.op_cache.known.functions

    def run(
        self, func: Any, args: tuple[Any, ...], kwargs: Any, otherwise: Callable[..., Any]
    ) -> Any:
        """Returns what the function returns; ``otherwise`` calls it if the call is not known."""
        if func in self._unlike:
            return otherwise(func, args, kwargs)
        mode = self._fake_mode
        with _DisableTorchFunctionSubclass():  # each attribute of a tensor takes half as long
            key, offsets = self._key(func, args, kwargs)
            known = None if key is None else self._known.get(key)
            if known:
                steps, view = known.at.get(offsets) or known.moved(offsets, args)
                results, several, in_backward = [*args], len(steps) > 1, _graph_task() != -1
                for note, places, made, kept, plan, freed in steps:
                    with _DisableTorchDispatch():
                        out = mode.op_cache.make(kept, ())
                        tensors = [results[place] for place in places]
                        mode.values.tape.repeat(note, tensors, out)
                    if in_backward:
                        mode.autograd_calls.note(out)
                    mode.observer.after_new(note.func, tensors, out, made, plan)
                    if several:
                        results.append(out)
                        tensors.clear()  # else they would live longer than in C++ code
                        for place in freed:
                            results[place] = None
                return out if view is None else _as_strided(out, *view)
        if key is None or known is not None:  # of another kind
            return otherwise(func, args, kwargs)
        return self._learn(key, offsets, func, args, kwargs, otherwise)

    def _key(
        self, func: Any, args: tuple[Any, ...], kwargs: Any
    ) -> tuple[Any | None, tuple[int, ...]]:
        """Returns all that the operators of the call depend on, and the offsets of its tensors.

        It is None if they may depend on more.
        """
        if (
            _dispatch_modes() != 1
            or _function_modes()
            or _is_autocast()
            or _in_inference_mode()
            or _transforms() is not None
            or forward_ad._current_level >= 0
        ):
            return _UNKNOWN
        mode = self._fake_mode
        if mode.heard is not None or mode.observer.traced:
            return _UNKNOWN
        parts: list[Any] = [func, _default_dtype(), algorithms()]
        offsets: list[int] = []
        if kwargs:
            parts += kwargs
            args = (*args, *kwargs.values())
        for arg in args:
            kind = type(arg)
            if kind is SimulatedTensor:
                own, dtype = arg.__dict__, arg.dtype
                learns = arg.requires_grad  # composites ask it even if no gradient is recorded
                if (learns and _records()) or arg.is_neg() or dtype.is_complex:
                    return _UNKNOWN
                if own["constant"] is not None or own["fake_mode"] is not mode:
                    return _UNKNOWN
                if mode.op_cache.has_zeros and arg._is_zerotensor():
                    return _UNKNOWN
                device = own["_fake_device"]
                where = 0 if device is IMPLICIT_CUDA else 1 if device is CUDA else device.type
                offset = arg.storage_offset()
                offsets.append(offset)
                parts.append((arg.shape, arg.stride(), dtype, offset % ALIGNED, where, learns))
            elif kind in _SEQUENCES:
                if has_tensors(arg):
                    return _UNKNOWN
                parts.append((kind, *map(type, arg), *arg))
            elif kind not in _PLAIN or (kind is float and not arg):  # -0.0 is equal to 0.0
                return _UNKNOWN
            else:
                parts.append(kind)
                parts.append(arg)
        return tuple(parts), tuple(offsets)

    def _learn(
        self,
        key: Any,
        offsets: tuple[int, ...],
        func: Any,
        args: tuple[Any, ...],
        kwargs: Any,
        otherwise: Callable[..., Any],
    ) -> Any:
        """Calls the function, and keeps the steps of the call if it makes new tensors alone."""
        mode = self._fake_mode
        mode.heard = heard = HeardOps(func, args)
        try:
            made = otherwise(func, args, kwargs)
        finally:
            mode.heard = None
        if heard.make_new_tensors:
            keep(self._known, key, AlikeCalls(offsets, self._steps(heard, made)))
        else:
            self._unlike.add(func)
        return made

    def _steps(self, heard: HeardOps, made: Any) -> Steps | None:
        """Returns the steps of a call; None if it cannot be made again from sizes."""
        if not heard.can_be_repeated or type(made) is not SimulatedTensor:
            return None
        base: Any = made._base if made._is_view() else made
        if base.untyped_storage()._cdata != heard.ops[-1].storage:
            return None
        mode = self._fake_mode
        with torch._C._ExcludeDispatchKeyGuard(_ABOVE_OPERATORS):
            result = mode.op_cache.described(base, ())
        facts = [mode.known_ops.of(op.func) for op in heard.ops]
        if result is None or any(one.reads_cudnn for one in facts):  # its settings: not in the key
            return None
        return steps_of(heard, result, None if made is base else made)
