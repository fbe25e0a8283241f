"""Parameters of lazy modules, which have no size until the first call: no simulated tensor is one.

PyTorch makes them of a class of their own, and changes the class with the size
(torch/nn/parameter.py, ``UninitializedTensorMixin``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ...errors import CannotSimulate

_REFUSED = "a lazy module, whose parameters have no size yet, cannot be simulated; give the sizes"


def patches(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patches that end the program where it makes one, by owner and name."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise refused(_REFUSED)

    return dict.fromkeys(
        ((kind, "__new__") for kind in (UninitializedParameter, UninitializedBuffer)), refuse
    )
