"""Programs that Inductor compiles. The run before the window compiles them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from ..workload import Workload
from .inputs import fp16, made, train

_Function = Callable[..., torch.Tensor]


def _pointwise(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * 2 + 1).sin() * x.exp()


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * 0.125).softmax(-1) @ v


def _normalised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight) @ weight[:, None]


def _train(function: _Function, *shapes: tuple[int, ...]) -> None:
    """Runs a compiled function and backward."""
    compiled: _Function = torch.compile(function)
    train(compiled(*(made(*shape, dtype=fp16) for shape in shapes)))


COMPILED = (
    Workload("compiled/pointwise", lambda: _train(_pointwise, (1000, 2000))),
    Workload("compiled/attention", lambda: _train(_attention, *3 * [(2, 4, 512, 64)])),
    Workload("compiled/norm", lambda: _train(_normalised, (900, 640), (640,))),
)
