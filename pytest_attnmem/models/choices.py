"""The optimizers and backends of attention that a recipe may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import BudgetError
from ..suggestion import did_you_mean
from ..units import shown

_KNOWN = ("adamw", "adam", "sgd", "adafactor")


def optimizer_of(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function from parameters to an optimizer, with PyTorch's own defaults.

    Raises:
        BudgetError: no optimizer has the name.
    """
    import torch

    if callable(name):
        return name
    found: dict[str, Callable[..., Any]] = dict(
        zip(
            _KNOWN,
            (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adafactor),
            strict=True,
        )
    )
    if name not in found:
        hint = did_you_mean(name, _KNOWN)
        raise BudgetError(
            f"unknown optimizer {shown(name)}; expected one of {', '.join(_KNOWN)}, or pkg.mod:fn"
            f" that makes one of the parameters{hint}"
        )
    return found[name]


def sdpa_backend(name: str) -> Any:
    """Returns PyTorch's ``SDPBackend`` of that name: flash, efficient, math or cudnn.

    Raises:
        BudgetError: there is none.
    """
    from torch.nn.attention import SDPBackend

    known = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "math": SDPBackend.MATH,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    if name not in known:
        raise BudgetError(
            f"unknown backend of SDPA {shown(name)}; expected one of {', '.join(known)}"
            + did_you_mean(name, known)
        )
    return known[name]
