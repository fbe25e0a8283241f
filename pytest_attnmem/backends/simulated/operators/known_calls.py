"""What an operator allocates and notes, by its arguments: the one cache of the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import torch

from ....values.notes import Layouts
from ....values.repeated_note import RepeatedNote
from ..convolution.layer import cudnn_settings
from ..scratch.op_plan import AllocationPlan
from ..shapes.shape_rules import OF_STORAGES

#: Calls that are remembered; then all are forgotten, as a program that makes more sizes than these
#: makes new ones.
MOST: Final = 20_000


#: Returns a result of the arguments and of what was made.
Result: TypeAlias = Callable[[Sequence[Any], Sequence[torch.Tensor]], Any]


class MadeTensor(NamedTuple):
    """A tensor that an operator makes."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int
    on_host: bool


class KnownCall:
    """What a call does each time."""

    __slots__ = ("is_one", "layouts", "made", "note", "plan", "result")

    def __init__(
        self, made: Sequence[MadeTensor], plan: AllocationPlan, result: Result, *, is_one: bool
    ) -> None:
        self.made = made
        self.plan = plan
        self.result = result
        """Returns the result, of the arguments and the tensors that were made."""
        self.is_one = is_one
        """True if the result is the one tensor that it makes."""
        self.layouts: Layouts | None = None
        """The layouts of its tensors, once it was noted."""
        self.note: RepeatedNote | None = None
        """The note that such calls share, if they are of a kind that can."""

    @classmethod
    def of(
        cls,
        out: Any,
        args: Sequence[Any],
        tensors: Sequence[torch.Tensor],
        made: Sequence[MadeTensor],
        plan: AllocationPlan,
    ) -> KnownCall | None:
        """Returns what is known after the first call; None for a result of another kind."""
        if out is None:
            return cls(made, plan, _nothing, is_one=False)
        if isinstance(out, torch.Tensor):
            if len(tensors) == 1 and out is tensors[0]:
                return cls(made, plan, _only, is_one=True)
            for place, arg in enumerate(args):
                if arg is out:
                    return cls(made, plan, partial(_argument, place), is_one=False)
            return None
        if not isinstance(out, list | tuple):
            return None
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        if any(isinstance(one, torch.Tensor) and id(one) not in places for one in out):
            return None
        template = tuple(
            (places.get(id(one), -1), None if id(one) in places else one) for one in out
        )
        return cls(made, plan, partial(_several, type(out), template), is_one=False)


def _nothing(_args: Any, _made: Any) -> None:
    return None


def _only(_args: Any, made: Any) -> Any:
    return made[0]


def _argument(place: int, args: Any, _made: Any) -> Any:
    return args[place]


def _several(kind: Any, template: tuple[tuple[int, Any], ...], _args: Any, made: Any) -> Any:
    return kind([other if place < 0 else made[place] for place, other in template])


class KnownCalls:
    """The calls of one device, by operator, arguments and settings."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Any, ...], KnownCall] = {}

    def find(self, key: tuple[Any, ...]) -> KnownCall | None:
        """Returns what is known of a call."""
        return self._calls.get(key)

    def remember(self, key: tuple[Any, ...], call: KnownCall) -> None:
        """Remembers a call."""
        if len(self._calls) >= MOST:
            self._calls.clear()
        self._calls[key] = call


def key_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Returns what tells a call from others; None for one that depends on more than it says."""
    if func in OF_STORAGES:
        return None
    parts: list[Any] = [func, torch.get_default_dtype(), cudnn_settings()]
    if not _describe(args, parts):
        return None
    if kwargs:
        parts.extend(kwargs)
        if not _describe(kwargs.values(), parts):
            return None
    if func._schema.is_mutable:
        parts.append(_shared([*args, *kwargs.values()]))
    return tuple(parts)


def _shared(values: Sequence[Any]) -> tuple[int, ...]:
    """Returns, for each tensor, the first one in the same memory: what it writes others read."""
    starts = [
        value.data_ptr() - value.storage_offset() * value.element_size()
        for value in values
        if isinstance(value, torch.Tensor)
    ]
    return tuple(map(starts.index, starts)) if len({*starts}) < len(starts) else ()


_EXACT: Final = frozenset({int, bool, str, type(None), torch.dtype, torch.device, torch.layout})
_EXACT_TOO: Final = frozenset({torch.memory_format, complex})


def _describe(args: Any, parts: list[Any]) -> bool:
    for arg in args:
        kind = type(arg)
        if isinstance(arg, torch.Tensor):
            if arg.layout is not torch.strided or (arg.is_cpu and arg.dim()):
                return False
            parts += (
                arg.is_cpu,
                arg.shape,
                arg.stride(),
                arg.dtype,
                arg.storage_offset(),
                arg.is_conj(),
            )
        elif kind in _EXACT or kind in _EXACT_TOO:
            parts += (kind, arg)
        elif kind is float:
            parts.append(repr(arg))  # 0.0 equals -0.0, and NaN does not equal itself
        elif kind is list or kind is tuple:
            parts.append(len(arg))
            if not _describe(arg, parts):
                return False
        else:
            return False
    return True
