"""What decides if a kernel of CUDA knows the dtype of a call: the dtypes of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch


class Operand(NamedTuple):
    """A tensor argument, or a list of tensors."""

    dtype: torch.dtype
    """The dtype of the tensor, or of the first of a list."""
    more: frozenset[torch.dtype]
    """The dtypes of a list's other tensors."""
    single: bool
    """True if it has no dimension, so that it gives way to others in type promotion."""


class Operands(NamedTuple):
    """The arguments of a call that can decide."""

    tensors: tuple[Operand, ...]
    numbers: frozenset[type]
    """The types of the numbers that stand where a tensor or a number may."""
    dtype: torch.dtype | None
    """The dtype that the call names."""


Decider = Callable[[Operands], "torch.dtype | None"]

_NUMBERS: Final = frozenset({"number", "Optional[number]", "Tensor", "Optional[Tensor]"})
#: From low to high: of several numbers the highest type decides.
_BY_HEIGHT: Final = MappingProxyType({bool: True, int: 2, float: 2.5, complex: 2j})


class Signature:
    """The schema of an operator, as far as it matters here."""

    def __init__(self, func: Any) -> None:
        arguments = func._schema.arguments
        self._outputs = frozenset(argument.name for argument in arguments if argument.is_out)
        self._numbers = [str(argument.type) in _NUMBERS for argument in arguments]
        self._by_name = {
            argument.name: number for argument, number in zip(arguments, self._numbers, strict=True)
        }

    def operands(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operands:
        """Returns the operands of a call, without the tensors that it only writes to."""
        given = [*zip(args, self._numbers, strict=False)]
        given += [
            (value, self._by_name.get(name, False))
            for name, value in kwargs.items()
            if name not in self._outputs
        ]
        tensors: list[Operand] = []
        numbers: set[type] = set()
        named = None
        for value, may_be_number in given:
            if isinstance(value, torch.Tensor):
                tensors.append(Operand(value.dtype, frozenset(), value.dim() == 0))
            elif isinstance(value, torch.dtype):
                named = value
            elif type(value) in _BY_HEIGHT:
                if may_be_number:
                    numbers.add(type(value))
            elif isinstance(value, (list, tuple)):
                found = [item for item in value if isinstance(item, torch.Tensor)]
                if found:
                    more = frozenset(item.dtype for item in found[1:]) - {found[0].dtype}
                    single = not any(item.dim() for item in found)
                    tensors.append(Operand(found[0].dtype, more, single))
        return Operands(tuple(tensors), frozenset(numbers), named)


def _nth(place: int) -> Decider:
    def decide(given: Operands) -> torch.dtype | None:
        return given.tensors[place].dtype if place < len(given.tensors) else None

    return decide


def _named(given: Operands) -> torch.dtype | None:
    if given.dtype is not None:
        return given.dtype
    return given.tensors[0].dtype if given.tensors else torch.get_default_dtype()


def _promoted(given: Operands) -> torch.dtype | None:
    """Returns the dtype that PyTorch promotes the operands to; None if it refuses to."""
    try:
        with_dims = _of_all(tensor for tensor in given.tensors if not tensor.single)
        single: Any = _of_all(tensor for tensor in given.tensors if tensor.single)
        if single is not None:
            single = torch.empty((), dtype=single, device="meta")
        number = [value for kind, value in _BY_HEIGHT.items() if kind in given.numbers]
        if number:
            if single is None:
                single = number[-1]
            else:
                dtype = torch.result_type(single, number[-1])
                single = torch.empty((), dtype=dtype, device="meta")
        if with_dims is None:
            return single.dtype if isinstance(single, torch.Tensor) else None
        if single is None:
            return with_dims
        return torch.result_type(torch.empty(1, dtype=with_dims, device="meta"), single)
    except RuntimeError:
        return None


def _of_all(tensors: Iterable[Operand]) -> torch.dtype | None:
    dtypes = [dtype for tensor in tensors for dtype in (tensor.dtype, *tensor.more)]
    return reduce(torch.promote_types, dtypes) if dtypes else None


def _with_dims(decide: Decider) -> Decider:
    """Returns a decider that leaves out calls whose first tensor is a single element."""

    def decide_with_dims(given: Operands) -> torch.dtype | None:
        return decide(given) if given.tensors and not given.tensors[0].single else None

    return decide_with_dims


_PLAIN: Final = MappingProxyType(
    {
        "first": _nth(0),
        "promoted": _promoted,
        "named": _named,
        "second": _nth(1),
        "third": _nth(2),
        "fourth": _nth(3),
    }
)
#: The ways to find the dtype that decides, by name; the simplest first.
DECIDERS: Final[Mapping[str, Decider]] = MappingProxyType(
    {**_PLAIN, **{f"{name}*": _with_dims(decide) for name, decide in _PLAIN.items()}}
)
