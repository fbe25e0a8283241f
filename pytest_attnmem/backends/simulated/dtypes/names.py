"""The dtypes by the letter that a recording has for them, and by their names in C++ errors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import torch

#: Letter → the dtype, and its name in errors.
LETTERS: Final[Mapping[str, tuple[torch.dtype, str]]] = MappingProxyType(
    {
        "?": (torch.bool, "Bool"),
        "B": (torch.uint8, "Byte"),
        "b": (torch.int8, "Char"),
        "h": (torch.int16, "Short"),
        "i": (torch.int32, "Int"),
        "l": (torch.int64, "Long"),
        "H": (torch.uint16, "UInt16"),
        "I": (torch.uint32, "UInt32"),
        "L": (torch.uint64, "UInt64"),
        "e": (torch.float16, "Half"),
        "g": (torch.bfloat16, "BFloat16"),
        "f": (torch.float32, "Float"),
        "d": (torch.float64, "Double"),
        "E": (torch.complex32, "ComplexHalf"),
        "F": (torch.complex64, "ComplexFloat"),
        "D": (torch.complex128, "ComplexDouble"),
        "3": (torch.float8_e4m3fn, "Float8_e4m3fn"),
        "2": (torch.float8_e5m2, "Float8_e5m2"),
        "z": (torch.float8_e4m3fnuz, "Float8_e4m3fnuz"),
        "y": (torch.float8_e5m2fnuz, "Float8_e5m2fnuz"),
        "0": (torch.float8_e8m0fnu, "Float8_e8m0fnu"),
    }
)
#: The unsigned integers that few kernels know, and the floats of 8 bits.
UNSIGNED: Final = (torch.uint16, torch.uint32, torch.uint64)
FLOAT8: Final = (
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    torch.float8_e8m0fnu,
)
#: Dtype → its name in errors.
NAMES: Final[Mapping[torch.dtype, str]] = MappingProxyType(dict(LETTERS.values()))


def kernel_text(kernel: str, dtype: torch.dtype) -> str:
    """Returns the words of a kernel that does not know a dtype."""
    return f"\"{kernel}\" not implemented for '{NAMES[dtype]}'"
