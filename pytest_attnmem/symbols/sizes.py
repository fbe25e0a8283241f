"""Sizes that a user gives, checked, and the bytes of one element of each dtype."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from types import MappingProxyType

from ..errors import BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..units import shown


def as_sizes(function: str, given: Mapping[str, object], *, bits: int | None = None) -> list[int]:
    """Returns the sizes of a function in their order; see :func:`as_size`."""
    return [as_size(function, name, value, bits=bits) for name, value in given.items()]


def as_size(function: str, name: str, value: object, *, bits: int | None = None) -> int:
    """Returns the size *name* of a function as an ``int``; an integer of numpy is one too.

    Raises:
        BudgetError: it is not a whole number >= 1, or not below 2 to the power of ``bits``.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    found = int(value) if whole else 0  # type: ignore[call-overload]
    if found < 1 or (bits is not None and found >> bits):
        below = "" if bits is None else f" and < 2**{bits}"
        raise BudgetError(
            f"{function} needs {name} to be a whole number >= 1{below}, got {shown(value)}"
        )
    return found


#: Bytes of one element, by the names of torch and numpy and by the usual short names.
ITEMSIZES: Mapping[str, int] = MappingProxyType(
    {
        "float64": 8, "double": 8, "fp64": 8, "complex64": 8, "int64": 8,
        "float32": 4, "float": 4, "fp32": 4, "int32": 4,
        "float16": 2, "half": 2, "fp16": 2, "bfloat16": 2, "bf16": 2, "int16": 2,
        "float8_e4m3fn": 1, "float8_e5m2": 1, "fp8": 1, "int8": 1, "uint8": 1, "bool": 1,
        "complex128": 16,
    }
)  # fmt: skip


def itemsize_of(dtype: object) -> int:
    """Returns the bytes of one element of a torch or numpy dtype, or of the dtype's name.

    Raises:
        BudgetError: the name is not in :data:`ITEMSIZES`.
    """
    size = getattr(dtype, "itemsize", None)
    if isinstance(size, int) and not size >> MAX_BITS:
        return size
    name = (dtype if isinstance(dtype, str) else shown(dtype)).removeprefix("torch.")
    if name not in ITEMSIZES:
        raise BudgetError(
            f"unknown dtype {shown(name)}; expected a torch dtype or one of {', '.join(ITEMSIZES)}"
        )
    return ITEMSIZES[name]
