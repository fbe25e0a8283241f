"""Ends the printing of a tensor whose values nobody knows, before the error goes on.

PyTorch holds a guard of its dispatcher in a variable of the function that prints. The error's
traceback keeps the variable, and the guard sets the dispatcher back when the garbage is collected:
in the middle of another operator, which is then noted twice.
"""

from __future__ import annotations

import traceback
from functools import wraps
from typing import Any

from torch import _tensor_str

from ...errors import UnknownValue


def end_failed_prints() -> None:
    """Makes each print that fails for a value let go of its variables, from now on."""
    module: Any = _tensor_str
    original = module._str

    @wraps(original)
    def printed(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except UnknownValue as error:
            traceback.clear_frames(error.__traceback__)
            raise

    module._str = printed
