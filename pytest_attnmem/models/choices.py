"""The optimizers and backends of attention that a recipe may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ..errors import BudgetError
from ..suggestion import did_you_mean
from ..units import shown

_KNOWN = ("adamw", "adam", "sgd", "adafactor")

#: Those with a fused kernel.
FUSED = ("adamw", "adam", "sgd")

#: The ways in which PyTorch's optimizers step, each with the keywords that choose it.
IMPLEMENTATIONS: Final[Mapping[str, Mapping[str, bool]]] = MappingProxyType(
    {
        "foreach": MappingProxyType({"foreach": True}),
        "fused": MappingProxyType({"fused": True}),
        "for-loop": MappingProxyType({"foreach": False}),
    }
)


def optimizer_of(name: str | Callable[..., Any], implementation: str = "") -> Callable[..., Any]:
    """Returns the function from parameters to an optimizer, with PyTorch's own defaults.

    ``implementation`` is a key of ``IMPLEMENTATIONS``, or empty.

    Raises:
        BudgetError: no optimizer has the name, or it has no such implementation.
    """
    import torch

    if implementation and implementation not in IMPLEMENTATIONS:
        raise BudgetError(
            f"unknown implementation {shown(implementation)}; expected one of"
            f" {', '.join(IMPLEMENTATIONS)}{did_you_mean(implementation, IMPLEMENTATIONS)}"
        )
    if callable(name):
        if implementation:
            raise BudgetError("implementation is for the optimizers of torch.optim by name")
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
    if implementation == "fused" and name not in FUSED:
        raise BudgetError(f"{name} has no fused implementation; {', '.join(FUSED)} have")
    return partial(found[name], **IMPLEMENTATIONS.get(implementation, {}))


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
