"""Twenty common modules, one training step each, measured eager and compiled.

``attnmem run --device A100-80GB -- benchmarks/compiled_modules.py`` writes the bytes of this torch
into ``benchmarks/compiled.json``; ``python benchmarks/compiled_page.py`` makes the page of them.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

from pytest_attnmem import measure
from pytest_attnmem.api.compiled_functions import Compilations

RECORDED: Final = Path(__file__).with_name("compiled.json")
#: The input of each module is [B, N, D] in bfloat16; attention has H heads, a loss V classes.
B, N, D, H, V = 4, 2048, 1024, 16, 32000
F_WIDTH = 4 * D


class HandRMSNorm(nn.Module):
    """The norm as model files write it, in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(D, F_WIDTH, bias=False), nn.Linear(D, F_WIDTH, bias=False)
        self.down = nn.Linear(F_WIDTH, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT * q.shape[-1] ** -0.5
    future = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def rotary(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    angles = torch.arange(q.shape[2], device=q.device)[:, None] / 10000 ** (
        torch.arange(0, q.shape[-1], 2, device=q.device) / q.shape[-1]
    )
    cos, sin = angles.cos().repeat(1, 2).to(q.dtype), angles.sin().repeat(1, 2).to(q.dtype)

    def turned(x: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin

    return fused(turned(q), turned(k), v)


class Attention(nn.Module):
    def __init__(self, inner: Callable[..., Tensor], groups: int = 1) -> None:
        super().__init__()
        self.inner, self.groups = inner, groups
        self.q, self.o = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.kv = nn.Linear(D, 2 * D // groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, *kv = self.q(x), *self.kv(x).chunk(2, -1)
        heads = [y.unflatten(-1, (-1, D // H)).transpose(1, 2) for y in (q, *kv)]
        if self.groups > 1:
            heads[1:] = [y.repeat_interleave(self.groups, 1) for y in heads[1:]]
        return self.o(self.inner(*heads).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(fused), SwiGLU()
        self.norms = nn.ModuleList([nn.RMSNorm(D), nn.RMSNorm(D)])

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, use_reentrant=False)


class Head(nn.Module):
    """A linear layer to V classes, and a loss."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.classes, self.loss = nn.Linear(D, V, bias=False), loss

    def forward(self, x: Tensor) -> Tensor:
        labels = torch.zeros(x.shape[0] * x.shape[1], dtype=torch.long, device=x.device)
        return self.loss(self.classes(x).flatten(0, 1), labels)


class ChunkedHead(Head):
    """The head and its loss over four parts of the sequence, each checkpointed."""

    def forward(self, x: Tensor) -> Tensor:
        part = super().forward
        losses = [checkpoint(part, y, use_reentrant=False) for y in x.chunk(4, 1)]
        return torch.stack(losses).mean()


class MultiHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(D, H, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return out


def flexible() -> nn.Module:
    mask = create_block_mask(
        lambda b, h, q, k: q >= k, None, None, N, N, device="cuda", _compile=False
    )
    return Attention(partial(flex_attention, block_mask=mask))


def mlp(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(D, F_WIDTH), nn.GELU(), *more, nn.Linear(F_WIDTH, D))


def layers(each: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """Returns the layers of pytorch#120381."""
    return nn.Sequential(
        *(each(nn.Sequential(nn.Linear(D, D), nn.LayerNorm(D), nn.GELU())) for _ in range(5))
    )


MODULES: Final = MappingProxyType(
    {
        "`nn.RMSNorm`": lambda: nn.RMSNorm(D),
        "`nn.LayerNorm`": lambda: nn.LayerNorm(D),
        "RMSNorm written by hand, in float32": HandRMSNorm,
        "MLP, GELU": mlp,
        "MLP, GELU and dropout": lambda: mlp(nn.Dropout(0.1)),
        "MLP, SwiGLU": SwiGLU,
        "MLP, SwiGLU, checkpointed": lambda: Checkpointed(SwiGLU()),
        "attention, `scaled_dot_product_attention`": lambda: Attention(fused),
        "attention, with rotary positions": lambda: Attention(rotary),
        "attention, 4 query heads to a key head, repeated": lambda: Attention(fused, 4),
        "attention, `nn.MultiheadAttention`": MultiHead,
        "attention, softmax of scores": lambda: Attention(naive),
        "attention, softmax of scores, checkpointed": lambda: Checkpointed(Attention(naive)),
        "attention, `flex_attention`, causal": flexible,
        "head and `cross_entropy`": lambda: Head(F.cross_entropy),
        "head and `cross_entropy` in float32": lambda: Head(
            lambda logits, labels: F.cross_entropy(logits.float(), labels)
        ),
        "head and `cross_entropy`, in 4 checkpointed parts": lambda: ChunkedHead(F.cross_entropy),
        "block of attention and SwiGLU": Block,
        "4 blocks, each checkpointed": lambda: nn.Sequential(
            *(Checkpointed(Block()) for _ in range(4))
        ),
        "5 × linear, LayerNorm, GELU, each checkpointed": lambda: layers(Checkpointed),
    }
)


@dataclass(frozen=True)
class Bytes:
    """Requested bytes of a training step."""

    saved: int
    """Alive after the forward pass: the output, and the tensors saved for backward."""
    peak: int


def measured(call: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor) -> Bytes:
    """Returns the bytes of a forward pass, and of a step, in a second run of each."""

    def step() -> None:
        call(x).sum().backward()

    def clear() -> None:
        module.zero_grad()
        x.grad = None

    step()
    clear()
    forward = measure(lambda: call(x), backend="null")
    saved = forward.known("retained")
    del forward
    whole = measure(step, backend="null")
    clear()
    return Bytes(saved, whole.known("peak"))


def row(make: Callable[[], nn.Module]) -> dict[str, Any]:
    """Returns the bytes of a module, eager and compiled, and what was compiled."""
    torch._dynamo.reset()
    module = make().to("cuda", torch.bfloat16)
    x = torch.ones(B, N, D, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    eager = measured(module, module, x)
    found = Compilations()
    compiled = measured(torch.compile(module), module, x)
    return {"eager": asdict(eager), "compiled": asdict(compiled), "graphs": found.text()}


def main() -> None:
    """Measures each module, and writes the file."""
    release = re.match(r"\d+\.\d+", torch.__version__)
    if release is None:
        raise SystemExit(f"torch {torch.__version__} has no release")
    for name, make in MODULES.items():
        found = row(make)
        print(name, found, flush=True)
        recorded = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
        recorded.setdefault(release[0], {})[name] = found
        RECORDED.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
