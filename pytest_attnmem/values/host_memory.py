"""The memory of the host that one noted operator takes, beside the memory that is free.

Without a check, the values of a large program would end the process: the kernel of Linux kills the
process that takes the last memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from ..errors import UnknownValue
from ..units import format_size
from .compute import WIDER
from .free_memory import SMALL, free_memory
from .notes import Ref
from .op_traits import Operator
from .work import scores

#: The matrices of scores, in float32, that attention holds at once.
_MATRICES: Final = 5
#: The share of the free memory that one operator may take; the estimate is not exact.
_SHARE: Final = 2


def require_memory(
    func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Sequence[Ref]
) -> None:
    """Checks that the host has the memory to compute an operator.

    Raises:
        UnknownValue: it takes more than half of the memory that is free.
    """
    taken = _taken(func, args, kwargs, outputs)
    if taken < SMALL:
        return
    free = free_memory()
    if free is not None and taken * _SHARE > free:
        raise UnknownValue(
            f"it takes {format_size(taken)} of the host's memory, of which {format_size(free)}"
            " are free"
        )


def _taken(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> int:
    """Returns the bytes of the outputs, with what the CPU keeps beside them."""
    made = sum([_wide_bytes(ref) for ref in outputs])
    return made + _MATRICES * 4 * scores(func, args, kwargs)


def _wide_bytes(ref: Ref) -> int:
    """Returns the bytes of a tensor, and of the wider one in which the CPU may compute it."""
    dtype = ref.layout.dtype
    wider = WIDER.get(dtype)
    return prod(ref.shape) * (dtype.itemsize + (2 * wider.itemsize if wider else 0))
