"""The bytes of one element of each dtype."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import BudgetError
from ..formulas.exact_arithmetic import MAX_BITS
from ..units import shown

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
