"""The workloads of ``attnmem verify``, by kind; each kind ends in its own list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from torch.utils.checkpoint import checkpoint

from .workload import Workload

fp64, fp32 = torch.float64, torch.float32
fp16, bf16 = torch.float16, torch.bfloat16


def made(*shape: int, dtype: torch.dtype = fp32, grad: bool = True) -> torch.Tensor:
    """Returns a tensor of this shape on the device; a leaf that takes gradients if ``grad``."""
    return torch.empty(shape, device="cuda", dtype=dtype, requires_grad=grad)


def tokens(rows: int, length: int, vocabulary: int) -> torch.Tensor:
    """Returns valid indices ``[rows, length]``."""
    return torch.randint(vocabulary, (rows, length), device="cuda")


def train(out: torch.Tensor) -> None:
    """Runs backward from an output with a gradient of its own shape."""
    out.backward(torch.empty_like(out))


_FLASH, _EFFICIENT = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
_MATH, _CUDNN = SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION


def _sdpa(
    backend: SDPBackend,
    dtype: torch.dtype,
    *,
    B: int = 2,
    H: int = 8,
    Hkv: int = 8,
    N: int = 1024,
    M: int = 1024,
    d: int = 64,
    causal: bool = False,
    dropout: float = 0.0,
    grad: bool = True,
) -> None:
    """Runs one attention ``[B, H, N, d]`` over M keys, and backward if ``grad``."""
    q = made(B, H, N, d, dtype=dtype, grad=grad)
    k, v = (made(B, Hkv, M, d, dtype=dtype, grad=grad) for _ in range(2))
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=causal, enable_gqa=Hkv != H
        )
    if grad:
        train(out)


def _length_first() -> None:
    """Runs flash attention on inputs ``[B, N, H, d]``, whose kernel needs no copies."""
    q, k, v = (made(2, 1024, 8, 64, dtype=fp16).transpose(1, 2) for _ in range(3))
    with sdpa_kernel(_FLASH):
        train(F.scaled_dot_product_attention(q, k, v))


def _masked() -> None:
    q, k, v = (made(2, 8, 512, 64, dtype=fp16) for _ in range(3))
    mask = torch.ones(512, 512, dtype=torch.bool, device="cuda").tril()
    train(F.scaled_dot_product_attention(q, k, v, mask))


def _biased() -> None:
    """Runs efficient attention with a learned bias."""
    q, k, v = (made(2, 4, 520, 72, dtype=fp16) for _ in range(3))
    bias = made(1, 4, 520, 520, dtype=fp16)
    with sdpa_kernel(_EFFICIENT):
        train(F.scaled_dot_product_attention(q, k, v, bias.expand(2, -1, -1, -1)))


def _by_hand(dtype: torch.dtype) -> None:
    q, k, v = (made(2, 4, 700, 64, dtype=dtype) for _ in range(3))
    train((q @ k.mT * 0.125).softmax(-1) @ v)


def _multihead(need_weights: bool) -> None:
    module = nn.MultiheadAttention(256, 8, batch_first=True, device="cuda", dtype=fp16)
    x = made(4, 384, 256, dtype=fp16)
    train(module(x, x, x, need_weights=need_weights)[0])


ATTENTION = tuple(
    Workload(f"attention/{name}", run)
    for name, run in (
        ("flash-fp16", partial(_sdpa, _FLASH, fp16)),
        ("flash-bf16", partial(_sdpa, _FLASH, bf16)),
        ("flash-causal-d96", partial(_sdpa, _FLASH, fp16, d=96, causal=True)),
        ("flash-grouped", partial(_sdpa, _FLASH, bf16, H=16, Hkv=4, d=128)),
        ("flash-dropout", partial(_sdpa, _FLASH, fp16, dropout=0.1)),
        ("flash-split-keys", partial(_sdpa, _FLASH, fp16, B=1, N=1, M=8192, grad=False)),
        ("flash-length-first", _length_first),
        ("efficient-fp32", partial(_sdpa, _EFFICIENT, fp32)),
        ("efficient-fp16", partial(_sdpa, _EFFICIENT, fp16)),
        ("efficient-bf16-causal", partial(_sdpa, _EFFICIENT, bf16, causal=True)),
        ("efficient-odd", partial(_sdpa, _EFFICIENT, fp32, N=1001, M=777)),
        ("efficient-bias", _biased),
        ("math-fp64", partial(_sdpa, _MATH, fp64, N=512, M=512)),
        ("math-fp32", partial(_sdpa, _MATH, fp32, N=512, M=512)),
        ("math-fp16", partial(_sdpa, _MATH, fp16, N=512, M=512, causal=True)),
        ("math-bf16", partial(_sdpa, _MATH, bf16, N=512, M=512)),
        ("cudnn-fp16", partial(_sdpa, _CUDNN, fp16)),
        ("cudnn-bf16-causal", partial(_sdpa, _CUDNN, bf16, causal=True, d=128)),
        ("masked-fp16", _masked),
        ("by-hand-fp64", partial(_by_hand, fp64)),
        ("by-hand-fp32", partial(_by_hand, fp32)),
        ("by-hand-fp16", partial(_by_hand, fp16)),
        ("by-hand-bf16", partial(_by_hand, bf16)),
        ("multihead-fp16", partial(_multihead, False)),
        ("multihead-weights-fp16", partial(_multihead, True)),
    )
)


def _square(dtype: torch.dtype) -> None:
    train(made(777, 640, dtype=dtype) @ made(640, 512, dtype=dtype))


def _batched(dtype: torch.dtype) -> None:
    train(torch.bmm(made(24, 300, 200, dtype=dtype), made(24, 200, 100, dtype=dtype)))


def _linear(dtype: torch.dtype) -> None:
    layer = nn.Linear(640, 1000, device="cuda", dtype=dtype)
    train(layer(made(4, 333, 640, dtype=dtype)))


def _integers() -> torch.Tensor:
    a = torch.ones(256, 512, dtype=torch.int8, device="cuda")
    b = torch.ones(384, 512, dtype=torch.int8, device="cuda")
    return torch._int_mm(a, b.t())


def _vectors() -> None:
    train(torch.outer(made(900, 300) @ made(300), made(500)))


def _contraction() -> None:
    a, b, c = made(4, 8, 200, 32), made(4, 8, 32, 48), made(8, 48)
    train(torch.einsum("bhnd,bhde,he->bhn", a, b, c))


PRODUCTS = (
    Workload("product/fp64", partial(_square, fp64)),
    Workload("product/fp32", partial(_square, fp32)),
    Workload("product/fp16", partial(_square, fp16)),
    Workload("product/bf16", partial(_square, bf16)),
    Workload("product/complex64", partial(_square, torch.complex64)),
    Workload("product/int8", _integers),
    Workload("product/batched-fp32", partial(_batched, fp32)),
    Workload("product/batched-bf16", partial(_batched, bf16)),
    Workload("product/linear-fp32", partial(_linear, fp32)),
    Workload("product/linear-fp16", partial(_linear, fp16)),
    Workload("product/vectors", _vectors),
    Workload("product/contraction", _contraction),
)


class Block(nn.Module):
    """A block with norms before attention and before two layers, as in GPT-2."""

    def __init__(self, width: int, heads: int, dtype: torch.dtype = fp32) -> None:
        super().__init__()
        linear = partial(nn.Linear, device="cuda", dtype=dtype)
        norm = partial(nn.LayerNorm, device="cuda", dtype=dtype)
        self.heads = heads
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.wide, self.narrow = linear(width, 4 * width), linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns ``[B, N, width]`` from the same shape."""
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mixed = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.narrow(F.gelu(self.wide(self.norms[1](x))))
        return out


def _block(dtype: torch.dtype) -> None:
    blocks = nn.Sequential(Block(256, 4, dtype), Block(256, 4, dtype))
    train(blocks(made(3, 300, 256, dtype=dtype)))


def _autocast() -> None:
    block, x = Block(256, 4), made(2, 400, 256)
    with torch.autocast("cuda", dtype=bf16):
        out = block(x)
    train(out)


def _gated() -> None:
    """Runs the feed-forward layers of Llama with RMSNorm and backward."""
    linear = partial(nn.Linear, bias=False, device="cuda", dtype=bf16)
    norm = nn.RMSNorm(320, device="cuda", dtype=bf16)
    gate, up, down = linear(320, 860), linear(320, 860), linear(860, 320)
    x = made(4, 333, 320, dtype=bf16)
    z = norm(x)
    train(x + down(F.silu(gate(z)) * up(z)))


def _encoder() -> None:
    layer = nn.TransformerEncoderLayer(192, 4, 512, batch_first=True, device="cuda")
    train(layer(made(4, 200, 192)))


def _rotary() -> None:
    """Runs rotary positions on queries and keys, and backward."""
    q, k = (made(2, 8, 500, 64, dtype=fp16) for _ in range(2))
    angles = torch.outer(torch.arange(500, device="cuda").float(), made(32, grad=False))
    cos, sin = (torch.cat((f, f), -1).to(fp16) for f in (angles.cos(), angles.sin()))
    turned = [x * cos + torch.cat((-x[..., 32:], x[..., :32]), -1) * sin for x in (q, k)]
    train(torch.cat(turned, 1))


def _language_head() -> None:
    """Runs an embedding, a tied head and the cross entropy of 5003 words, and backward."""
    table = nn.Embedding(5003, 192, device="cuda")
    ids = tokens(3, 300, 5003)
    logits = table(ids) @ table.weight.T
    F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten()).backward()


def _decoding() -> None:
    """Runs four steps of decoding, whose cache of keys and values grows by one row each."""
    with torch.inference_mode():
        keys, values = (made(4, 8, 300, 64, dtype=fp16, grad=False) for _ in range(2))
        for _ in range(4):
            q, k, v = (made(4, 8, 1, 64, dtype=fp16, grad=False) for _ in range(3))
            keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
            F.scaled_dot_product_attention(q, keys, values)


BLOCKS = (
    Workload("block/gpt-fp32", partial(_block, fp32)),
    Workload("block/gpt-bf16", partial(_block, bf16)),
    Workload("block/autocast-bf16", _autocast),
    Workload("block/gated-bf16", _gated),
    Workload("block/encoder-layer", _encoder),
    Workload("block/rotary-fp16", _rotary),
    Workload("block/language-head", _language_head),
    Workload("block/decoding-fp16", _decoding),
)


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


def _checkpointed(use_reentrant: bool) -> None:
    """Runs three blocks, each run again in backward."""
    blocks = [Block(192, 4) for _ in range(3)]
    x = made(3, 300, 192)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=use_reentrant)
    train(x)


def _on_the_host() -> None:
    """Runs a block whose saved tensors are copied to the host until backward."""
    block, x = Block(192, 4), made(3, 300, 192)
    with save_on_cpu():
        out = block(x)
    train(out)


class _Recomputed(torch.autograd.Function):
    """Attention that keeps its inputs alone, and makes its weights again in backward."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> torch.Tensor:
        """Returns ``[B, H, N, d]``."""
        ctx.save_for_backward(q, k, v)
        return (q @ k.mT).softmax(-1) @ v

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Returns the gradients of q, k and v."""
        q, k, v = ctx.saved_tensors  # type: ignore[attr-defined]
        weights = (q @ k.mT).softmax(-1)
        slope = grads[0] @ v.mT
        slope = weights * (slope - (slope * weights).sum(-1, keepdim=True))
        return slope @ k, slope.mT @ q, weights.mT @ grads[0]


def _recomputed() -> None:
    q, k, v = (made(3, 5, 410, 40, dtype=fp16) for _ in range(3))
    train(_Recomputed.apply(q, k, v))  # type: ignore[no-untyped-call]


RECOMPUTATION = (
    Workload("recomputation/checkpoint", partial(_checkpointed, False)),
    Workload("recomputation/checkpoint-reentrant", partial(_checkpointed, True)),
    Workload("recomputation/saved-on-the-host", _on_the_host),
    Workload("recomputation/own-backward-fp16", _recomputed),
)


def _sorted() -> None:
    x = made(20, 30_000)
    train(x.sort(-1).values[:, :50] + x.topk(50).values)


def _summed() -> torch.Tensor:
    return torch.ones(2_000_000, dtype=torch.int64, device="cuda").cumsum(0)


def _reduced() -> None:
    """Runs reductions of one long row, whose blocks write partial results, and backward."""
    x = made(3_000_000)
    (x.norm() + x.logsumexp(0) + x.amax()).backward()


def _normalised_and_dropped() -> None:
    x = made(700, 5000, dtype=fp16)
    train(F.dropout(F.layer_norm(x, (5000,)).log_softmax(-1), 0.1))


def _embedded() -> None:
    """Runs a lookup of 9000 rows and its backward, which sorts the indices."""
    train(F.embedding(tokens(9, 1000, 800), made(800, 128)))


def _scattered() -> None:
    where = tokens(1, 5000, 300)[0]
    train(torch.zeros(300, 64, device="cuda").index_add(0, where, made(5000, 64)))


SCRATCH = (
    Workload("scratch/sort-topk", _sorted),
    Workload("scratch/cumsum-int64", _summed),
    Workload("scratch/reductions", _reduced),
    Workload("scratch/norm-softmax-dropout", _normalised_and_dropped),
    Workload("scratch/embedding", _embedded),
    Workload("scratch/index-add", _scattered),
)


def _convolution(layer: type[nn.Module], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Runs a layer of 64 channels with windows of 3, and backward."""
    train(layer(shape[1], 64, 3, padding=1, device="cuda", dtype=dtype)(made(*shape, dtype=dtype)))


CONVOLUTIONS = (
    Workload("convolution/1d-fp16", partial(_convolution, nn.Conv1d, (8, 32, 1000), fp16)),
    Workload("convolution/2d-fp32", partial(_convolution, nn.Conv2d, (4, 32, 56, 56), fp32)),
    Workload("convolution/2d-fp16", partial(_convolution, nn.Conv2d, (8, 64, 56, 56), fp16)),
    Workload(
        "convolution/transposed-fp16",
        partial(_convolution, nn.ConvTranspose2d, (4, 64, 28, 28), fp16),
    ),
)


_Function = Callable[..., torch.Tensor]


def _pointwise(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * 2 + 1).sin() * x.exp()


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * 0.125).softmax(-1) @ v


def _normalised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], weight) @ weight[:, None]


def _train(function: _Function, *shapes: tuple[int, ...]) -> None:
    compiled: _Function = torch.compile(function)
    train(compiled(*(made(*shape, dtype=fp16) for shape in shapes)))


COMPILED = (
    Workload("compiled/pointwise", lambda: _train(_pointwise, (1000, 2000))),
    Workload("compiled/attention", lambda: _train(_attention, *3 * [(2, 4, 512, 64)])),
    Workload("compiled/norm", lambda: _train(_normalised, (900, 640), (640,))),
)

#: All of them, in the order in which they run: those that take long are last.
WORKLOADS = (
    *(*ATTENTION, *PRODUCTS, *BLOCKS, *OPTIMIZERS),
    *(*RECOMPUTATION, *SCRATCH, *CONVOLUTIONS, *COMPILED),
)
