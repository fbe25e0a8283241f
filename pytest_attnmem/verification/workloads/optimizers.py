"""Training steps: two of each optimizer, so that the second has its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

from ..workload import Workload
from .inputs import made


def _model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(500, 700), nn.ReLU(), nn.Linear(700, 100)).to("cuda")


def _steps(optimizer: Callable[..., Optimizer], clip: bool = False, **options: object) -> None:
    """Runs two steps on two layers; gradients are clipped if ``clip``."""
    model = _model()
    stepper = optimizer(model.parameters(), lr=0.1, **options)
    for _ in range(2):
        stepper.zero_grad()
        model(made(64, 500, grad=False)).square().mean().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepper.step()


def _accumulated() -> None:
    """Runs a step whose gradients come from two halves of the batch, in mixed precision."""
    model = _model()
    stepper = AdamW(model.parameters())
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(made(32, 500, grad=False)).float().square().mean() / 2
        loss.backward()
    stepper.step()


OPTIMIZERS = (
    Workload("optimizer/sgd-momentum", partial(_steps, SGD, momentum=0.9)),
    Workload("optimizer/adam", partial(_steps, Adam)),
    Workload("optimizer/adamw-loop", partial(_steps, AdamW, foreach=False)),
    Workload("optimizer/adamw-fused", partial(_steps, AdamW, fused=True)),
    Workload("optimizer/adamw-clipped", partial(_steps, AdamW, clip=True)),
    Workload("optimizer/rmsprop", partial(_steps, RMSprop)),
    Workload("optimizer/adagrad", partial(_steps, Adagrad)),
    Workload("optimizer/accumulated-bf16", _accumulated),
)
