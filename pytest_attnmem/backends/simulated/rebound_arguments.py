"""Functions of PyTorch, in Python, that let go of an argument before they end.

A temporary tensor of the caller is freed there. The simulation, which sees the call, still holds
the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch.nn.functional as F

#: Those that copy an argument under its own name.
_REBINDING = (F.gaussian_nll_loss,)


def rebinding(mark_unknown: Callable[[str], None]) -> Mapping[Any, Callable[..., Any]]:
    """Returns these functions, by what they replace: their memory is unknown."""

    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        mark_unknown(f"torch.nn.functional.{function.__name__}")
        return function(*args, **kwargs)

    return {function: partial(run, function) for function in _REBINDING}
