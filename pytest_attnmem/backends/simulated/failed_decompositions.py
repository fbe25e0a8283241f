"""Decompositions that fail: a device reads the numbers of errors, and raises.

The code that reads is in aten/src/ATen/native/BatchLinearAlgebra.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._mode_utils import no_dispatch

from ...errors import CannotCompute, UnknownValue, again
from ...values.compute import compute

if TYPE_CHECKING:
    from .values import Values

#: The most floating-point operations to learn whether a decomposition succeeded.
_CHECK_WORK = 10**9
_CHECK = torch.ops.aten._linalg_check_errors.default


def raise_if_failed(values: Values, numbers: Any, name: str, **named: Any) -> None:
    """Raises the host's error if a number is not zero; nothing if that takes more work to know.

    Backward passes check decompositions too, where the modes of functions make tensors of the host
    fakes; ``compute`` leaves these modes.
    """
    numbers.any()  # it takes memory on a device
    try:
        known = values.value(numbers, _CHECK_WORK)
    except UnknownValue:
        return
    try:
        with no_dispatch():
            compute(_CHECK, (known, name), named)
    except CannotCompute as error:
        raise again(error.__cause__ or error) from None
