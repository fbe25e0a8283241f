"""pytorch#193193: checkpointed blocks that one graph uses twice; a graph break is a workaround."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

D, HEADS, LAYERS, B, N = 512, 8, 8, 16, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.q, self.kv, self.cross = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def attend(self, *qkv, causal):
        heads = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in qkv)
        return F.scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2).flatten(2)

    def forward(self, x, context=None):
        x = x + self.out(self.attend(*self.qkv(self.norms[0](x)).chunk(3, -1), causal=True))
        if context is not None:
            keys = self.kv(context).chunk(2, -1)
            x = x + self.cross(self.attend(self.q(self.norms[1](x)), *keys, causal=False))
        return x + self.down(F.gelu(self.up(self.norms[2](x))))


class Twice(nn.Module):
    def __init__(self, breaks):
        super().__init__()
        self.blocks, self.breaks = nn.ModuleList(Block() for _ in range(LAYERS)), breaks

    def forward(self, x, context):
        first = second = x
        for block in self.blocks:
            first = checkpoint(block, first, use_reentrant=False)
        if self.breaks:
            torch._dynamo.graph_break()
        for block in self.blocks:
            second = checkpoint(block, second, context, use_reentrant=False)
        return first.float().mean() + second.float().mean()


@pytest.fixture
def step(breaks):
    model = Twice(breaks).to("cuda", torch.bfloat16)
    x, context = torch.ones(2, B, N, D, device="cuda", dtype=torch.bfloat16)

    def run():
        torch.compile(model)(x, context).backward()
        model.zero_grad()

    return run


@pytest.mark.xfail(strict=True, reason="pytorch#193193")
@pytest.mark.memory_budget(compiled="<=eager")
@pytest.mark.parametrize("breaks", [False])
def test_one_graph(step):
    step()


@pytest.mark.memory_budget(compiled="<=eager")
@pytest.mark.parametrize("breaks", [True])
def test_a_graph_break_between_the_uses(step):
    step()
