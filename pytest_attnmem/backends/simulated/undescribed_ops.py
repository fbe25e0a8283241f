"""Operators whose outputs nobody can describe: without a rule of sizes, or with sparse outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException

from .program_errors import at

#: The error of a tensor of the device that the fake mode makes to run an operator with data.
NO_DATA: Final = "a simulated device has no data"
#: Errors of operators whose sizes PyTorch finds by running them, or finds with a faulty rule.
_NO_RULE: Final = (
    *("Could not run 'aten::empty_strided'", "Found no NVIDIA driver", "meta_"),
    NO_DATA,
)
_QUANTIZED: Final = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def lacks_rule(error: Exception) -> bool:
    """Returns True for the error of an operator that PyTorch has no rule of sizes for."""
    return isinstance(error, UnsupportedOperatorException) or str(error).startswith(_NO_RULE)


def check_strided(
    func: Any, args: tuple[Any, ...], out: Any, refused: Callable[[str], Exception]
) -> None:
    """Checks that an operator made no sparse tensor, of several storages, and no quantized one.

    Raises:
        CannotSimulate: it made one; ``refused`` makes the error.
    """
    for arg in args:
        if isinstance(arg, torch.dtype) and arg in _QUANTIZED:
            raise refused(f"{func}{at()} makes a quantized tensor, which cannot be simulated")
    for leaf in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided:
            raise refused(f"{func}{at()} makes a sparse tensor, which cannot be simulated")
