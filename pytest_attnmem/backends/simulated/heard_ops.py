"""The operators that one call of the program runs, to find out whether it can be made again."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from operator import itemgetter
from types import BuiltinFunctionType, MappingProxyType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from ...values.notes import Layouts
from .cached_op import UNKNOWN, CachedOp, CachedOutput, offsets_key
from .fake_tensor import SimulatedTensor
from .op_kinds import is_factory

if TYPE_CHECKING:
    from .observer import DispatchedOp

_OF_C: Final = frozenset({BuiltinFunctionType, MethodDescriptorType})
#: The composite in Python among the products.
_EINSUM: Final = torch.functional.einsum
#: Composites that choose their operators by sizes and strides alone.
_PRODUCTS: Final = frozenset({"matmul", "linear", "einsum"})
#: Functions whose operator has another name.
_NAMES: Final = MappingProxyType(
    {
        "__invert__": "bitwise_not",
        "__and__": "bitwise_and",
        "__or__": "bitwise_or",
        "softmax": "_softmax",
        "log_softmax": "_log_softmax",
    }
)


class HeardOp(NamedTuple):
    """An operator that is no view."""

    func: Any
    cached: CachedOp | None
    operands: tuple[tuple[int, Any], ...] | None
    """For each argument the place of its storage, or -1 and the argument; None: not certain.

    The places count the arguments of the call, and then the results of its operators.
    """
    kwargs: dict[str, Any]
    layouts: Layouts
    storage: int
    """The address of its result's storage."""


class HeardOps:
    """The operators that a call has run, as far as they matter; it keeps no tensor alive."""

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.ops: list[HeardOp] = []
        self.freed: list[tuple[int, int]] = []
        """After how many operators the result at a place was freed."""
        self._function = function
        self._only_new = True
        tensors = [(place, arg) for place, arg in enumerate(args) if type(arg) is SimulatedTensor]
        self._places = [(place, arg.untyped_storage()._cdata) for place, arg in tensors]
        self._first_result = len(args)
        """The place of the first operator's result."""
        self._tensors = len(tensors)
        self._apart = len({*map(itemgetter(1), self._places)}) == len(tensors)
        """False if two arguments share a storage, as in ``x * x``."""
        # ``matmul`` of tensors with the same number of dimensions keeps their order.
        name = getattr(function, "__name__", "")
        self._in_order = name not in _PRODUCTS or (
            name == "matmul" and len({arg.dim() for _, arg in tensors}) == 1
        )
        self._results: list[weakref.ref[Any]] = []

    def note(self, op: DispatchedOp) -> None:
        """Notes an operator."""
        outputs = () if op.cached is None else op.cached.outputs
        if outputs and all(type(one) is CachedOutput and one.source >= 0 for one in outputs):
            return  # a view, or ``_unsafe_view``: it allocates and writes nothing
        self._only_new &= not (op.in_place or op.func._schema.is_mutable or is_factory(op.func))
        kwargs, operands, key = {**op.kwargs}, self._operands(op), 0
        if has_tensors(kwargs.values()):
            kwargs, operands = {}, None
        if type(op.out) is SimulatedTensor:
            storage = op.out.untyped_storage()
            place, key = self._first_result + len(self.ops), storage._cdata
            self._places.append((place, key))
            freed = partial(_was_freed, place, self.freed, self.ops, self._places)
            self._results.append(weakref.ref(storage, freed))
        offsets = [int(arg.storage_offset()) for arg in op.args if type(arg) is SimulatedTensor]
        layouts = UNKNOWN if op.cached is None else op.cached.layouts(offsets_key(offsets))
        self.ops.append(HeardOp(op.func, op.cached, operands, kwargs, layouts, key))

    def _operands(self, op: DispatchedOp) -> tuple[tuple[int, Any], ...] | None:
        """Returns the arguments of an operator; None if it is not certain which they are.

        If two share a storage, the operator must read as many tensors, in the same order.
        """
        if not (self._apart or self._in_order):
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
            elif has_tensors(value if isinstance(value, (list, tuple)) else (value,)):
                return None
            else:
                operands.append((-1, value))
        return tuple(operands) if self._apart or not left else None

    @property
    def make_new_tensors(self) -> bool:
        """Returns True if such calls run operators that make new tensors, and nothing else.

        Python code may do anything besides, and other composites read settings.
        """
        function = self._function
        if function is _EINSUM:
            return True  # another equation may, if this one does not
        if type(function) not in _OF_C:
            return False
        if not (self.ops and self._only_new):
            return False
        if function.__name__ in _PRODUCTS:
            return True
        name = self.ops[0].func._schema.name.removeprefix("aten::")
        return len(self.ops) == 1 and _NAMES.get(function.__name__, function.__name__) == name

    @property
    def can_be_repeated(self) -> bool:
        """Returns True if this call did so, and its arguments alone say how."""
        if not (self.ops and self._only_new) or any(op.operands is None for op in self.ops):
            return False
        if len(self.ops) > 1 and not self._apart:
            return False
        if len(self.freed) != len(self.ops) - 1:  # all but the result
            return False
        # Three operands are contracted in an order that depends on settings.
        return self._function is not _EINSUM or self._tensors <= 2


def _was_freed(
    place: int, freed: list[tuple[int, int]], ops: list[Any], places: list[Any], _: Any
) -> None:
    """Notes the free of a result; it refers to no listener, which would refer to it."""
    freed.append((len(ops), place))
    places[:] = [one for one in places if one[0] != place]


def has_tensors(values: Iterable[Any]) -> bool:
    """Returns True if one of the values is a tensor, or may contain some."""
    return any(isinstance(value, (torch.Tensor, list, tuple)) for value in values)
