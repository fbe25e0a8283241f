"""Budgets of whole layers: forward, backward, and the memory that is left after a step."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)


@pytest.fixture
def batch():
    return torch.randn(2, 512, 256)


def test_a_step_by_its_parts(attnmem, layer, batch):
    with attnmem.region("forward", "64 MiB"):
        loss = layer(batch).sum()
    with attnmem.region("backward", "64 MiB"):
        loss.backward()
    layer.zero_grad(set_to_none=True)
    del loss


@pytest.mark.memory_budget("4 KiB", metric="retained")
def test_a_step_leaves_nothing_behind(layer, batch):
    layer(batch).sum().backward()
    layer.zero_grad(set_to_none=True)


def test_checkpointing_pays(attnmem, layer, batch):
    def step(block):
        x = batch.clone().requires_grad_()
        for _ in range(4):
            x = block(x)
        x.sum().backward()
        layer.zero_grad(set_to_none=True)

    attnmem.compare(
        lambda: step(lambda x: checkpoint(layer, x, use_reentrant=False)),
        lambda: step(layer),
        max_ratio=0.5,
        warmup=1,
    )
