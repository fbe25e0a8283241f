"""Workloads written and recorded after all tables of scratch, so no table was fitted to them.

As in ``workloads.py``, each runs once in a fresh process from ``torch.cuda.init()`` on. They are
whole models and training steps rather than single layers, some with sizes not a power of two.
``record_held_out.py`` records them.
"""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

empty = partial(torch.empty, device="cuda")
half, bf16 = torch.float16, torch.bfloat16


def tokens(batch, length, vocabulary):
    return torch.randint(vocabulary, (batch, length), device="cuda")


class Attention(nn.Module):
    """Multi-head attention with a custom kernel."""

    def __init__(self, width, heads, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Normalised before attention and before the two layers after it."""

    def __init__(self, width, heads, attend, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, attend)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


def causal(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def flash(q, k, v):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Gpt(nn.Module):
    """GPT-2 with its output tied to its embedding."""

    def __init__(self, vocabulary, length, width, heads, layers, attend, dropout):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, attend, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


def gpt2_adamw():
    """Two steps, gradients clipped; at the second the optimizer has its state."""
    model = Gpt(5003, 500, 192, 6, 3, causal, 0.1).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    ids = tokens(3, 500, 5003)
    for _ in range(2):
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def gpt2_flash_autocast():
    """Mixed precision with a scaler, attention by the flash kernels, gradients accumulated."""
    model = Gpt(8000, 1024, 256, 4, 2, flash, 0.0).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        ids = tokens(2, 1024, 8000)
        with torch.autocast("cuda", dtype=bf16):
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten()) / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def rope_gqa(repeat):
    """Attention as in Llama: rotary positions, two heads of keys for each eight of queries."""
    B, N, H, Hkv, d = 2, 777, 8, 2, 96
    x = empty(B, N, H * d, dtype=bf16, requires_grad=True)
    wq = nn.Linear(H * d, H * d, bias=False, device="cuda", dtype=bf16)
    wk, wv = (nn.Linear(H * d, Hkv * d, bias=False, device="cuda", dtype=bf16) for _ in range(2))
    wo = nn.Linear(H * d, H * d, bias=False, device="cuda", dtype=bf16)
    angles = torch.outer(
        torch.arange(N, device="cuda").float(),
        10_000 ** (-torch.arange(0, d, 2, device="cuda").float() / d),
    )
    cos, sin = (torch.cat((f, f), -1).to(bf16) for f in (angles.cos(), angles.sin()))
    q, k, v = (w(x).unflatten(-1, (-1, d)).transpose(1, 2) for w in (wq, wk, wv))
    q, k = rope(q, cos, sin), rope(k, cos, sin)
    if repeat:
        k, v = (t.repeat_interleave(H // Hkv, 1) for t in (k, v))
        out = causal(q, k, v)
    else:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    wo(out.transpose(1, 2).flatten(2)).float().pow(2).mean().backward()


def cross_attention():
    """300 queries over 1111 keys, some of which are padding; no power of two anywhere."""
    B, H, N, M, d = 3, 5, 300, 1111, 80
    q = empty(B, H, N, d, dtype=half, requires_grad=True)
    k, v = (empty(B, H, M, d, dtype=half, requires_grad=True) for _ in range(2))
    lengths = torch.tensor([1111, 900, 17], device="cuda")
    seen = torch.arange(M, device="cuda") < lengths[:, None]
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k).float().mul(d**-0.5)
    weights = torch.where(seen[:, None, None], scores, -torch.inf).softmax(-1).to(half)
    torch.einsum("bhnm,bhmd->bhnd", F.dropout(weights, 0.2), v).sum().backward()


def efficient_bias():
    """The memory-efficient kernels with a bias that is learned, and dropout."""
    B, H, N, d = 2, 4, 520, 72
    q, k, v = (empty(B, H, N, d, dtype=half, requires_grad=True) for _ in range(3))
    bias = empty(1, H, N, N, dtype=half, requires_grad=True)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        out = F.scaled_dot_product_attention(q, k, v, bias.expand(B, -1, -1, -1), dropout_p=0.1)
    out.sum().backward()


def relative_bias():
    """T5: a bias of buckets of distances, added to the scores."""
    B, H, N, d = 2, 6, 512, 64
    q, k, v = (empty(B, H, N, d, requires_grad=True) for _ in range(3))
    table = nn.Embedding(32, H, device="cuda")
    places = torch.arange(N, device="cuda")
    distance = (places[None] - places[:, None]).clamp(-16, 15) + 16
    bias = table(distance).permute(2, 0, 1)[None]
    ((q @ k.mT + bias).softmax(-1) @ v).mean().backward()


def cumsum_attention():
    """Causal linear attention, every state written out."""
    B, H, N, d = 2, 3, 700, 32
    q, k, v = (empty(B, H, N, d, requires_grad=True) for _ in range(3))
    q, k = q.relu() + 1e-3, F.softplus(k)
    states = (k[..., None] * v[..., None, :]).cumsum(2)
    out = (q[..., None, :] @ states).squeeze(-2)
    norm = (q * k.cumsum(2)).sum(-1, keepdim=True)
    (out / norm).sum().backward()


def local_attention():
    """Blocks of 128 that see themselves and their neighbours, keys unfolded."""
    B, H, N, d, w = 2, 4, 2048, 64, 128
    q, k, v = (empty(B, H, N, d, dtype=half, requires_grad=True) for _ in range(3))
    rows = q.unflatten(2, (-1, w))
    around = [F.pad(t, (0, 0, w, w)).unfold(2, 3 * w, w).mT for t in (k, v)]
    scores = rows @ around[0].mT * d**-0.5
    (scores.softmax(-1) @ around[1]).flatten(2, 3).sum().backward()


def talking_heads():
    """Scores mixed over heads before and after the softmax."""
    B, H, N, d = 2, 8, 384, 48
    q, k, v = (empty(B, H, N, d, requires_grad=True) for _ in range(3))
    before, after = (empty(H, H, requires_grad=True) for _ in range(2))
    scores = torch.einsum("bhnm,hg->bgnm", q @ k.mT, before)
    weights = torch.einsum("bgnm,gh->bhnm", scores.log_softmax(-1).exp(), after)
    (weights @ v).square().sum().backward()


def top_k_attention():
    """Each query attends to the 32 keys with the highest scores."""
    B, H, N, d = 1, 4, 900, 64
    q, k, v = (empty(B, H, N, d, requires_grad=True) for _ in range(3))
    best, where = (q @ k.mT).topk(32, -1)
    weights = torch.zeros(B, H, N, N, device="cuda").scatter(-1, where, best.softmax(-1))
    (weights @ v).sum().backward()


def linformer():
    """Keys and values projected from 1500 rows to 200."""
    B, H, N, d, r = 2, 4, 1500, 64, 200
    q, k, v = (empty(B, H, N, d, dtype=bf16, requires_grad=True) for _ in range(3))
    e, f = (empty(r, N, dtype=bf16, requires_grad=True) for _ in range(2))
    keys, values = torch.matmul(e, k), torch.matmul(f, v)
    F.scaled_dot_product_attention(q, keys, values, empty(N, r, dtype=bf16)).sum().backward()


def decoding():
    """A cache of keys and values that grows by one row a token, through two layers."""
    B, H, d = 4, 8, 64
    with torch.inference_mode():
        caches = [[empty(B, H, 300, d, dtype=half) for _ in range(2)] for _ in range(2)]
        x, mix = empty(B, 1, H * d, dtype=half), empty(H * d, 3 * H * d, dtype=half)
        for _ in range(5):
            for cache in caches:
                q, k, v = (x @ mix).unflatten(-1, (3, H, d)).permute(2, 0, 3, 1, 4)
                cache[0], cache[1] = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
                with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                    out = F.scaled_dot_product_attention(q, *cache)
                x = x + out.transpose(1, 2).flatten(2)


def swiglu():
    """Llama's feed-forward layers with RMSNorm, by SGD with momentum."""
    layers = nn.ModuleList(
        nn.ModuleDict(
            {
                "norm": nn.RMSNorm(320),
                "gate": nn.Linear(320, 860, bias=False),
                "up": nn.Linear(320, 860, bias=False),
                "down": nn.Linear(860, 320, bias=False),
            }
        )
        for _ in range(3)
    ).to("cuda", bf16)
    optimizer = torch.optim.SGD(layers.parameters(), 0.1, momentum=0.9, nesterov=True)
    x = empty(6, 333, 320, dtype=bf16)
    for _ in range(2):
        y = x
        for layer in layers:
            z = layer["norm"](y)
            y = y + layer["down"](F.silu(layer["gate"](z)) * layer["up"](z))
        optimizer.zero_grad()
        F.mse_loss(y, x).backward()
        optimizer.step()


def deep_norms():
    """Nothing but layer norms and linear layers, without a gradient for the input."""
    sizes = (1000, 600, 300, 150)
    layers = [
        part
        for wide, narrow in pairwise(sizes)
        for part in (nn.Linear(wide, narrow), nn.LayerNorm(narrow), nn.ReLU(inplace=True))
    ]
    model = nn.Sequential(*layers, nn.Linear(150, 10)).cuda()
    optimizer = torch.optim.RMSprop(model.parameters())
    x, y = empty(5000, 1000), torch.randint(10, (5000,), device="cuda")
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y, label_smoothing=0.1).backward()
        optimizer.step()


def checkpointed_blocks(use_reentrant):
    """Blocks of a transformer, each run again in backward."""
    blocks = [Block(256, 4, causal, 0.1).cuda() for _ in range(4)]
    x = empty(4, 400, 256, requires_grad=True)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=use_reentrant)
    x.sum().backward()


def encoder_decoder():
    """``nn.Transformer`` with defaults, a mask for the target, Adam."""
    model = nn.Transformer(128, 4, 2, 2, 512, batch_first=True, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True, foreach=False)
    source, target = empty(4, 200, 128), empty(4, 150, 128)
    mask = model.generate_square_subsequent_mask(150, device="cuda")
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        model(source, target, tgt_mask=mask).sum().backward()
    optimizer.step()


def vision_autocast():
    """A vision transformer on patches, autocast to float16 with a scaler."""
    patch, model = nn.Linear(3 * 16 * 16, 192), Block(192, 3, causal, 0.0)
    head = nn.Linear(192, 1000)
    modules = nn.ModuleList([patch, model, head]).cuda()
    optimizer = torch.optim.AdamW(modules.parameters())
    scaler = torch.amp.GradScaler("cuda")
    images, labels = empty(12, 3, 224, 224), torch.randint(1000, (12,), device="cuda")
    with torch.autocast("cuda", dtype=half):
        patches = F.unfold(images, 16, stride=16).mT
        loss = F.cross_entropy(head(model(patch(patches)).mean(1)), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


class Recomputed(torch.autograd.Function):
    """Attention that keeps its inputs alone, and makes its weights again in backward."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return (q @ k.mT).softmax(-1) @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        weights = (q @ k.mT).softmax(-1)
        slope = grad @ v.mT
        slope = weights * (slope - (slope * weights).sum(-1, keepdim=True))
        return slope @ k, slope.mT @ q, weights.mT @ grad


def recomputed():
    q, k, v = (empty(3, 5, 410, 40, dtype=half, requires_grad=True) for _ in range(3))
    Recomputed.apply(q, k, v).sum().backward()


def alibi():
    """Distances as a bias, in place where it can be, softmax in float32."""
    B, H, N, d = 2, 12, 600, 64
    q, k, v = (empty(B, N, H, d, dtype=bf16, requires_grad=True).transpose(1, 2) for _ in range(3))
    slopes = 2 ** (-8 * torch.arange(1, H + 1, device="cuda") / H)
    places = torch.arange(N, device="cuda")
    bias = -(places[:, None] - places).abs() * slopes[:, None, None]
    scores = (q @ k.mT).mul_(d**-0.5).add_(bias.to(bf16))
    weights = F.softmax(scores, -1, dtype=torch.float32).type_as(q)
    (weights @ v).transpose(1, 2).reshape(B, N, H * d).sum().backward()


def math_gqa():
    """The composite that PyTorch falls back to, causal, with heads shared."""
    q = empty(2, 8, 450, 56, dtype=half, requires_grad=True)
    k, v = (empty(2, 4, 450, 56, dtype=half, requires_grad=True) for _ in range(2))
    with sdpa_kernel(SDPBackend.MATH):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    out.sum().backward()


WORKLOADS = {
    "gpt2_adamw": gpt2_adamw,
    "gpt2_flash_autocast": gpt2_flash_autocast,
    "rope_gqa_repeated": partial(rope_gqa, repeat=True),
    "rope_gqa_flash": partial(rope_gqa, repeat=False),
    "cross_attention": cross_attention,
    "efficient_bias": efficient_bias,
    "relative_bias": relative_bias,
    "cumsum_attention": cumsum_attention,
    "local_attention": local_attention,
    "talking_heads": talking_heads,
    "top_k_attention": top_k_attention,
    "linformer": linformer,
    "decoding": decoding,
    "swiglu": swiglu,
    "deep_norms": deep_norms,
    "checkpointed_reentrant": partial(checkpointed_blocks, use_reentrant=True),
    "checkpointed": partial(checkpointed_blocks, use_reentrant=False),
    "encoder_decoder": encoder_decoder,
    "vision_autocast": vision_autocast,
    "recomputed": recomputed,
    "alibi": alibi,
    "math_gqa": math_gqa,
}
