"""The language model of Stanford's CS336, which many measured: a Llama with a naive attention.

The course's releases differ in their rotary embeddings: that of 2025 indexes a table by position
and interleaves the halves by einx; that of 2026 slices the table and joins the halves.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from attention import softmax
from torch import Tensor, nn

#: d_model, d_ff, layers, heads.
SIZES = {
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
}


class Linear(nn.Module):
    """A linear layer; ``torch.empty`` costs no time, and bytes do not depend on values."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("...i,oi->...o", x, self.weight)


class Embedding(nn.Module):
    """Embeddings of tokens, by indexing."""

    def __init__(self, vocabulary: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.weight[tokens, :]


class Norm(nn.Module):
    """A root mean square norm."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        rms = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * rms
        return (self.weight * x).to(dtype)


class Rotary(nn.Module):
    """Rotary embeddings, of the course's ``year``."""

    def __init__(self, context: int, dim: int, year: int) -> None:
        super().__init__()
        self.year = year
        powers = 10000.0 ** -(torch.arange(0, dim, 2) / dim)
        angles = torch.einsum("t,f->tf", torch.arange(context), powers)
        self.register_buffer("table", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Returns the input ``[..., N, d]``, turned."""
        if self.year == 2026:
            # pairs are neighbours: a copy, and two views of it
            first, second = x.unflatten(-1, (-1, 2)).permute(-1, *range(x.dim())).unbind(0)
            cos, sin = self.table[:, : x.size(-2), :].unbind(0)
            return torch.concat((cos * first - sin * second, sin * first + cos * second), dim=-1)
        import einx
        from einops import rearrange

        first, second = rearrange(x, "... (half_d xy) -> xy ... half_d", xy=2)
        place = "cos_sin [pos] half_dim, ... -> cos_sin ... half_dim"
        cos, sin = einx.get_at(place, self.table, positions)
        turned = cos * first - sin * second
        other = sin * first + cos * second
        joined: Tensor = einx.rearrange(
            "... x_half, ... x_half -> ... (x_half (1 + 1))", turned, other
        ).contiguous()
        return joined


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Returns attention over ``[..., N, d]``; the scores stay alive to the end."""
    scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(k.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, v)


class Attention(nn.Module):
    """Causal attention with several heads."""

    def __init__(self, d_model: int, heads: int, rotary: Rotary) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (
            Linear(d_model, d_model) for _ in range(4)
        )
        self.rotary = rotary

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Returns the output; names live on as long as the course's do, and die in that order."""
        *batch, length, _ = x.size()
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for t in (q, k, v))
        ones = [1] * len(batch)
        if self.rotary.year == 2025:
            positions = torch.arange(length, device=x.device).view(*ones, length)
            positions = positions.unsqueeze(-2)
        q = self.rotary(q, positions)
        k = self.rotary(k, positions)
        places = torch.arange(length, device=x.device)
        mask = places.view(length, 1) >= places.view(1, length)
        mask = mask.view(*ones, *[1] * (self.rotary.year == 2025), length, length)
        output = attend(q, k, v, mask)
        output = output.transpose(-3, -2).flatten(-2).contiguous()
        found: Tensor = self.output_proj(output)
        return found


class Mlp(nn.Module):
    """A gated MLP, its activation made of two operators."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w1, self.w2 = Linear(d_model, d_ff), Linear(d_ff, d_model)
        self.w3 = Linear(d_model, d_ff)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.w2(silu(self.w1(x)) * self.w3(x))
        return found


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


class Block(nn.Module):
    """A layer of the model."""

    def __init__(self, d_model: int, d_ff: int, heads: int, rotary: Rotary) -> None:
        super().__init__()
        self.attn = Attention(d_model, heads, rotary)
        self.ffn = Mlp(d_model, d_ff)
        self.ln1, self.ln2 = Norm(d_model), Norm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attn(self.ln1(x))
        middle = x + attended
        mapped = self.ffn(self.ln2(middle))
        return middle + mapped


class Model(nn.Module):
    """The language model."""

    def __init__(self, size: str, context: int, year: int, vocabulary: int = 10000) -> None:
        super().__init__()
        d_model, d_ff, count, heads = SIZES[size]
        self.token_embeddings = Embedding(vocabulary, d_model)
        self.rotary = Rotary(context, d_model // heads, year)
        self.layers = nn.ModuleList(Block(d_model, d_ff, heads, self.rotary) for _ in range(count))
        self.ln_final = Norm(d_model)
        self.lm_head = Linear(d_model, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns logits ``[B, N, vocabulary]``."""
        embedded = x = self.token_embeddings(tokens)
        if self.rotary.year == 2025:
            del embedded  # the release of 2026 keeps its name
        for layer in self.layers:
            x = layer(x)
        x = self.ln_final(x)
        logits: Tensor = self.lm_head(x)
        return logits


class AdamW(torch.optim.Optimizer):
    """The course's AdamW: out of place, a parameter at a time."""

    def __init__(self, params: Any, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": 0.01})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Updates the parameters; names live on to the next parameter."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                state = self.state[p]
                t = state.get("t", 1)
                m = state.get("m", torch.zeros_like(grad))
                v = state.get("v", torch.zeros_like(grad))
                new_m = 0.9 * m + ((1 - 0.9) * grad)
                new_v = 0.999 * v + ((1 - 0.999) * torch.square(grad))
                rate = group["lr"] * (math.sqrt(1 - 0.999**t) / (1 - 0.9**t))
                p.data -= rate * new_m / (torch.sqrt(new_v) + 1e-8)
                p.data -= group["lr"] * group["weight_decay"] * p.data
                state["m"], state["v"], state["t"] = new_m, new_v, t + 1
