"""Layers as the benchmarks of Liger-Kernel measure them: in plain torch, or by its kernels.

A benchmark is a function of ``BENCHMARKS`` that makes its inputs and returns a forward pass and the
gradient of its output. The kernels are those of the package ``liger-kernel``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: A forward pass; and the gradient of its output, made before the measurement or in it.
Benchmark = tuple[Callable[[], Any], Any]
PLAIN = ("huggingface", "torch")


def ops(module: str, name: str) -> Callable[..., Any]:
    """Returns a function of autograd of liger-kernel."""
    import_module("torch.distributed.tensor")  # some kernels name it and do not import it
    function: Callable[..., Any] = getattr(import_module(f"liger_kernel.ops.{module}"), name).apply
    return function


def first(output: Any) -> Any:
    """Returns a loss; newer releases return other numbers with it."""
    return output[0] if isinstance(output, tuple) else output


def output_layers(H: int, V: int, dtype: torch.dtype) -> list[nn.Linear]:
    """Returns the output layers of two modules: each run has the plain one and that of a kernel."""
    return [nn.Linear(H, V, bias=False, device="cuda", dtype=dtype) for _ in range(2)]


def randn(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def inputs_of(*shape: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Returns an input and the gradient of its output."""
    x = randn(*shape, dtype=dtype)
    dy = torch.randn_like(x)
    return x.requires_grad_(), dy


def llama_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Returns the root mean square norm of Llama: float32 inside."""
    wide = x.to(torch.float32)
    variance = wide.pow(2).mean(-1, keepdim=True)
    wide = wide * torch.rsqrt(variance + eps)
    return weight * wide.to(x.dtype)


def rms_norm(provider: str, M: int, H: int, eps: float, dtype: torch.dtype) -> Benchmark:
    """Both modules exist in each run."""
    weights = [nn.Parameter(torch.ones(H, device="cuda")) for _ in range(2)]
    x, dy = inputs_of(M, H, dtype=dtype)
    if provider in PLAIN:
        return lambda: llama_norm(x, weights[0], eps), dy
    kernel = ops("rms_norm", "LigerRMSNormFunction")
    return lambda: kernel(x, weights[0], eps, 0.0, "llama"), dy


def layer_norm(provider: str, M: int, N: int, eps: float, dtype: torch.dtype) -> Benchmark:
    """Both modules exist in each run."""
    layers = [nn.LayerNorm(N, eps=eps, device="cuda") for _ in range(2)]
    x, dy = inputs_of(M, N, dtype=dtype)
    if provider in PLAIN:
        return lambda: layers[0](x), dy
    kernel = ops("layer_norm", "LigerLayerNormFunction")
    return lambda: kernel(x, layers[0].weight, layers[1].bias, eps), dy


class Mlp(nn.Module):
    """The gated MLP of Llama, with an activation of torch or the product of both by a kernel."""

    def __init__(self, hidden: int, inner: int, dtype: torch.dtype, activation: str, kernel: bool):
        super().__init__()
        made = {"device": "cuda", "dtype": dtype, "bias": False}
        self.gate_proj = nn.Linear(hidden, inner, **made)
        self.up_proj = nn.Linear(hidden, inner, **made)
        self.down_proj = nn.Linear(inner, hidden, **made)
        self.activation = {
            "silu": F.silu,
            "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
        }[activation]
        names = {"silu": ("swiglu", "LigerSiLUMulFunction")}
        self.kernel = (
            ops(*names.get(activation, ("geglu", "LigerGELUMulFunction"))) if kernel else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output; the shapes of input and output are one."""
        if self.kernel:
            product = self.kernel(self.gate_proj(x), self.up_proj(x))
        else:
            product = self.activation(self.gate_proj(x)) * self.up_proj(x)
        output: Tensor = self.down_proj(product)
        return output


class Tiled(torch.autograd.Function):
    """DeepSpeed's MLP over shards of the sequence, each computed again in backward."""

    @staticmethod
    def forward(ctx: Any, mlp: nn.Module, x: Tensor, shards: int, *weights: Tensor) -> Tensor:
        ctx.mlp, ctx.shards = mlp, shards
        ctx.save_for_backward(x)
        with torch.no_grad():
            outputs = [mlp(shard) for shard in torch.chunk(x, chunks=shards, dim=-2)]
        return torch.cat(outputs, dim=-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Computes each shard again, and its gradients into those of the whole."""
        (x,) = ctx.saved_tensors
        shape = x.shape
        x = x.detach().requires_grad_(x.requires_grad)
        x = x.view(-1, shape[-1])
        incoming = gradients[0].view(-1, shape[-1])
        gradient = torch.zeros_like(x)
        shards = list(torch.chunk(x, chunks=ctx.shards, dim=0))
        for number, shard in enumerate(shards):
            shard.requires_grad_()
            place = number * shards[0].shape[0], shard.shape[0]
            shard.grad = gradient.narrow(0, *place).view_as(shard)
            given = incoming.narrow(0, *place).view_as(shard)
            with torch.enable_grad():
                output = ctx.mlp(shard)
            torch.autograd.backward(output, given)
        return None, gradient.view(shape), None


def mlp(
    provider: str,
    T: int,
    hidden_size: int,
    intermediate_size: int,
    hidden_act: str,
    dtype: torch.dtype,
    bsz: int,
    num_shards: int = 1,
) -> Benchmark:
    """Llama's MLP, plain, by a kernel, or over shards of the sequence."""
    x = randn(bsz, T, hidden_size, grad=True, dtype=dtype)
    by_kernel = provider.startswith("liger")
    layer = Mlp(hidden_size, intermediate_size, dtype, hidden_act, by_kernel)
    if provider == "liger_tiled":
        tiled = import_module("liger_kernel.ops.tiled_mlp").apply_tiled_mlp
        weights = [*layer.parameters()]

        def call(module: Mlp, shard: Tensor) -> Any:  # its names live on to its end
            gate = module.gate_proj(shard)
            up = module.up_proj(shard)
            return module.down_proj(module.kernel(gate, up))

        return lambda: tiled(call, layer, x, num_shards, weights), torch.randn_like
    if provider == "deepspeed_tiled":
        return lambda: Tiled.apply(layer, x, num_shards), torch.randn_like
    return lambda: layer(x), torch.randn_like


def half_turned(x: Tensor) -> Tensor:
    """Returns the halves of the last dimension, exchanged; backward goes by their order here."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat((-second, first), dim=-1)


def turned(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Returns queries and keys with rotary embeddings."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos) + (half_turned(q) * sin), (k * cos) + (half_turned(k) * sin)


def frequencies(head: int, T: int) -> Tensor:
    """Returns the angles of rotary embeddings, ``[1, T, head/2]``; and keeps what makes them."""
    exponents = torch.arange(0, head, 2, dtype=torch.int64).to("cuda").float() / head
    inverse = 1.0 / (10000.0**exponents)
    KEPT.append(inverse)
    positions = torch.arange(T, device="cuda", dtype=torch.long).unsqueeze(0)
    KEPT.append(positions)
    wide = inverse[None, :, None].float().expand(1, -1, 1)
    return (wide @ positions[:, None, :].float()).transpose(1, 2)


#: Tensors that a published benchmark keeps and does not use.
KEPT: list[Tensor] = []


def as_complex(q: Tensor, k: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
    """Returns queries and keys with rotary embeddings, ``[1, T, heads, d]``, as Llama 4 does."""
    wide = [torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (q, k)]
    first = torch.view_as_real(wide[0] * turns[:, :, None, :]).flatten(3)
    second = torch.view_as_real(wide[1] * turns[:, :, None, :]).flatten(3)
    return first.type_as(q), second.type_as(k)


def rope(
    provider: str,
    hidden_size: int,
    seq_len: int,
    num_q_heads: int,
    num_kv_heads: int,
    dtype: torch.dtype,
    *,
    llama: int = 3,
) -> Benchmark:
    """Rotary embeddings of Llama, ``[1, heads, T, d]``, or of Llama 4."""
    KEPT.clear()
    head = hidden_size // num_q_heads
    q, k = (
        randn(1, seq_len, heads, head, grad=True, dtype=dtype)
        for heads in (num_q_heads, num_kv_heads)
    )
    if llama == 3:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    gradients = (q, k), (torch.randn_like(q), torch.randn_like(k))
    angles = frequencies(head, seq_len)
    if llama == 4:
        turns = torch.polar(torch.ones_like(angles), angles)
        kernel = as_complex if provider in PLAIN else ops("llama4_rope", "LigerLlama4RopeFunction")
        del angles
        return lambda: kernel(q, k, turns), gradients
    both = torch.cat((angles, angles), dim=-1)
    cos, sin = both.cos().to(dtype), both.sin().to(dtype)
    del angles, both
    if provider in PLAIN:
        return lambda: turned(q, k, cos, sin), gradients
    kernel = ops("rope", "LigerRopeFunction")
    return lambda: kernel(q, k, cos, sin, KEPT[-1], 1), gradients


def cross_entropy(provider: str, B: int, T: int, V: int) -> Benchmark:
    """The loss of logits in float32."""
    x = randn(B * T, V, grad=True)
    known = torch.randint(V, (B * T,))
    target = known.to("cuda")
    if provider in PLAIN:
        return lambda: F.cross_entropy(x, target), "loss"
    kernel = ops("cross_entropy", "LigerCrossEntropyFunction")

    def by_kernel() -> Any:
        target.copy_(known)  # as below
        return kernel(x, target, -100)

    return by_kernel, "loss"


def fused_linear_cross_entropy(
    provider: str, BT: int, H: int, V: int, dtype: torch.dtype
) -> Benchmark:
    """The output layer and the loss; both modules exist in each run."""
    heads = output_layers(H, V, dtype)
    x = randn(BT, H, grad=True, dtype=dtype)
    known = torch.randint(V, (BT,))
    target = known.to("cuda")
    if provider in PLAIN:

        def plain() -> Tensor:
            logits = heads[0](x)
            return F.cross_entropy(logits, target)

        return plain, "loss"
    kernel = ops("fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction")

    def by_kernel() -> Any:
        target.copy_(known)  # the kernel reads its length, which nobody knows after the last one
        return first(kernel(x, heads[1].weight, target))

    return by_kernel, "loss"


def distributions(B: int, T: int, V: int, log: tuple[bool, bool]) -> tuple[Tensor, Tensor]:
    """Returns two distributions over ``V``, or their logarithms; the first has a graph."""
    kinds = torch.softmax, torch.log_softmax
    x = kinds[log[0]](randn(B * T, V, grad=True), dim=-1)
    return x, kinds[log[1]](randn(B * T, V), dim=-1)


def kl_div(provider: str, B: int, T: int, V: int) -> Benchmark:
    x, target = distributions(B, T, V, (True, False))
    if provider in PLAIN:
        return lambda: F.kl_div(x, target, reduction="batchmean"), keep_graph
    kernel = ops("kl_div", "LigerKLDivLossFunction")
    return lambda: kernel(x, target, "batchmean", False), keep_graph


def keep_graph(_: Tensor) -> None:
    """The gradient of a loss, whose graph is kept."""


def jsd_loss(log_q: Tensor, log_p: Tensor, beta: float = 0.5, *, summed: bool = False) -> Tensor:
    """Returns the divergence of Jensen and Shannon; ``summed`` has the order of newer releases."""
    log_p, log_q = log_p.to(torch.float), log_q.to(torch.float)
    log_p, log_q = log_p.view(-1, log_p.size(-1)), log_q.view(-1, log_q.size(-1))
    if summed:
        m = torch.lerp(torch.exp(log_q), torch.exp(log_p), beta)
        kl = nn.KLDivLoss(reduction="none", log_target=True)
        loss = beta * kl(torch.log(m), log_p).sum(dim=-1) + (1 - beta) * kl(
            torch.log(m), log_q
        ).sum(dim=-1)
        return (loss / log_q.shape[0]).sum()
    m = torch.lerp(torch.exp(log_p), torch.exp(log_q), beta)
    kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
    return beta * kl(torch.log(m), log_p) + (1 - beta) * kl(torch.log(m), log_q)


def jsd(provider: str, B: int, T: int, V: int, summed: bool = False) -> Benchmark:
    """The divergence of two distributions given as logarithms."""
    x, target = distributions(B, T, V, (True, True))
    if provider in PLAIN:
        return lambda: jsd_loss(x, target, summed=summed), keep_graph
    kernel = ops("jsd", "LigerJSDFunction")
    return lambda: kernel(x, target, None, 0.5, -100), keep_graph


def fused_linear_jsd(provider: str, BT: int, H: int, V: int, dtype: torch.dtype) -> Benchmark:
    """Two output layers and the divergence; the modules share their weights."""
    weights = [torch.rand(V, H, device="cuda", dtype=dtype) for _ in range(2)]
    student_head, teacher_head = (nn.Parameter(weight) for weight in weights)
    student = torch.rand(BT, H, requires_grad=True, dtype=dtype, device="cuda")
    teacher = torch.rand(BT, H, dtype=dtype, device="cuda")
    if provider in PLAIN:

        def plain() -> Tensor:
            logits = F.linear(student, student_head)
            others = F.linear(teacher, teacher_head)
            log_q = torch.log_softmax(logits / 1.0, dim=-1)
            log_p = torch.log_softmax(others / 1.0, dim=-1)
            return jsd_loss(log_q, log_p).to(dtype)

        return plain, "loss"
    kernel = ops("fused_linear_jsd", "LigerFusedLinearJSDFunction")
    return lambda: kernel(
        student, student_head, teacher, teacher_head, None, 0.5, -100, 1.0
    ), "loss"


def tvd(provider: str, B: int, T: int, V: int) -> Benchmark:
    x, target = distributions(B, T, V, (False, False))
    if provider in PLAIN:

        def plain() -> Tensor:
            distance = torch.abs(x - target) / 2.0
            return torch.sum(distance) / x.size(0)

        return plain, keep_graph
    kernel = ops("tvd", "LigerTVDLossFunction")
    return lambda: kernel(x, target, None, "batchmean", -100), keep_graph


def softmax(provider: str, M: int, N: int, dtype: torch.dtype) -> Benchmark:
    """A softmax over the last dimension, of a vector: the rows ``M`` are not used."""
    x = randn(N, grad=True, dtype=dtype)
    if provider in PLAIN:
        return lambda: torch.softmax(x, -1), torch.ones_like
    kernel = ops("softmax", "LigerSoftmaxFunction")
    return lambda: kernel(x), torch.ones_like


def relu_squared(provider: str, M: int, N: int, dtype: torch.dtype) -> Benchmark:
    """The square of a rectified input, of a vector: the rows ``M`` are not used."""
    x = randn(N, grad=True, dtype=dtype)
    if provider in PLAIN:

        def plain() -> Tensor:
            rectified = F.relu(x)
            return torch.square(rectified)

        return plain, torch.ones_like
    kernel = ops("relu_squared", "LigerReLUSquaredFunction")
    return lambda: kernel(x), torch.ones_like


def sparsemax(provider: str, B: int, T: int, V: int, dim: int, dtype: torch.dtype) -> Benchmark:
    """A sparse softmax, by sorting."""
    x, dy = inputs_of(B * T, V, dtype=dtype)
    if provider in PLAIN:

        def plain() -> Tensor:
            ordered, _ = torch.sort(x, dim=dim, descending=True)
            sums = torch.cumsum(ordered, dim=dim)
            ranks = torch.arange(1, V + 1, device="cuda", dtype=dtype).view(1, V)
            bound = 1 + ranks * ordered
            support = bound > sums
            k = support.sum(dim=dim, keepdim=True).clamp(min=1)
            total = (ordered * support).sum(dim=dim, keepdim=True)
            tau = (total - 1) / k
            return torch.clamp(x - tau, min=0)

        return plain, dy
    kernel = ops("sparsemax", "LigerSparsemaxFunction")
    return lambda: kernel(x, dim), dy


def group_norm(
    provider: str, M: int, C: int, H: int, channels_per_group: int, eps: float, dtype: torch.dtype
) -> Benchmark:
    """Both modules exist in each run."""
    groups = C // channels_per_group
    layers = [nn.GroupNorm(groups, C, eps=eps, device="cuda") for _ in range(2)]
    x, dy = inputs_of(M, C, H, dtype=dtype)
    if provider in PLAIN:
        return lambda: layers[0](x), dy
    kernel = ops("group_norm", "LigerGroupNormFunction")
    return lambda: kernel(x, layers[0].weight, layers[1].bias, C, groups, eps), dy


def fused_add_rms_norm(provider: str, M: int, H: int, eps: float, dtype: torch.dtype) -> Benchmark:
    """A residual connection and the norm; all modules exist in each run."""
    weights = [nn.Parameter(torch.ones(H, device="cuda")) for _ in range(4)]
    x, r = (randn(M, H, dtype=dtype) for _ in range(2))
    gradients = torch.randn_like(x), torch.randn_like(r)
    x.requires_grad_()
    r.requires_grad_()
    if provider == "liger_fused_add_rms_norm":
        kernel = ops("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
        return lambda: kernel(x, r, weights[0], eps, 0.0, "llama", False), (None, gradients)

    def plain() -> tuple[Tensor, Tensor]:
        hidden, residual = x.to(torch.float32), r.to(torch.float32)
        hidden = hidden + residual
        residual = hidden
        variance = hidden.pow(2).mean(-1, keepdim=True)
        hidden = hidden * torch.rsqrt(variance + eps)
        return weights[1] * hidden.to(dtype), residual.to(dtype)

    def by_kernel() -> tuple[Tensor, Tensor]:
        hidden, residual = x.to(torch.float32), r.to(torch.float32)
        hidden = hidden + residual
        residual = hidden
        norm = ops("rms_norm", "LigerRMSNormFunction")
        hidden = norm(hidden, weights[3], eps, 0.0, "llama", False)
        return weights[2] * hidden.to(dtype), residual.to(dtype)

    return plain if provider in PLAIN else by_kernel, (None, gradients)


def megatron_rms_norm(provider: str, S: int, B: int, H: int) -> Benchmark:
    """The norm as Megatron calls it."""
    layer = nn.RMSNorm(H, eps=1e-6, device="cuda", dtype=torch.bfloat16)
    x = randn(S, B, H, grad=True, dtype=torch.bfloat16)
    if provider == "liger":
        kernel = ops("rms_norm", "LigerRMSNormFunction")
        return lambda: kernel(x, layer.weight, 1e-6, 0.0, "llama", False), "sum"
    return lambda: layer(x), "sum"


def neighborhood_attention(
    provider: str,
    batch_size: int,
    seq_len: int,
    hidden_size: int,
    num_heads: int,
    kernel_size: int,
    dilation: int,
    dtype: torch.dtype,
    bias: bool = True,
) -> Benchmark:
    """Attention to neighbours; both modules exist in each run."""

    def layers() -> list[nn.Linear]:
        made = {"device": "cuda", "dtype": dtype, "bias": bias}
        return [nn.Linear(hidden_size, hidden_size, **made) for _ in range(4)]

    modules = [layers(), layers()]
    x, dy = inputs_of(batch_size, seq_len, hidden_size, dtype=dtype)
    head = hidden_size // num_heads
    scale = 1.0 / math.sqrt(head)
    places = torch.arange(seq_len)
    distance = (places[None, :] - places[:, None]).abs()
    reach = distance <= kernel_size // 2 * dilation
    near = (reach & (distance % dilation == 0)) if dilation > 1 else reach

    def forward() -> Tensor:
        q_proj, k_proj, v_proj, out_proj = modules[provider == "liger"]
        q, k, v = q_proj(x), k_proj(x), v_proj(x)
        heads = batch_size, seq_len, num_heads, head
        q = q.view(heads).transpose(1, 2)
        k = k.view(heads).transpose(1, 2)
        v = v.view(heads).transpose(1, 2)
        if provider == "liger":
            kernel = ops("fused_neighborhood_attention", "LigerFusedNeighborhoodAttentionFunction")
            output = kernel(q, k, v, kernel_size, dilation, scale)
        else:
            scores = torch.matmul(q, k.transpose(-2, -1)) * scale
            mask = torch.zeros(seq_len, seq_len, device="cuda", dtype=torch.bool)
            mask.copy_(near)
            scores = scores.masked_fill(~mask, float("-inf"))
            weights = torch.softmax(scores, dim=-1)
            output = torch.matmul(weights, v)
        output = output.transpose(1, 2).contiguous().view(batch_size, seq_len, hidden_size)
        found: Tensor = out_proj(output)
        return found

    return forward, dy


BENCHMARKS: dict[str, Callable[..., Benchmark]] = {
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "geglu": mlp,
    "swiglu": mlp,
    "tiled_geglu": mlp,
    "tiled_swiglu": mlp,
    "rope": rope,
    "llama4_rope": partial(rope, llama=4),
    "cross_entropy": cross_entropy,
    "fused_linear_cross_entropy": fused_linear_cross_entropy,
    "kl_div": kl_div,
    "jsd": jsd,
    "fused_linear_jsd": fused_linear_jsd,
    "tvd": tvd,
    "softmax": softmax,
    "relu_squared": relu_squared,
    "sparsemax": sparsemax,
    "group_norm": group_norm,
    "fused_add_rms_norm": fused_add_rms_norm,
    "megatron_rms_norm": megatron_rms_norm,
    "fused_neighborhood_attention": neighborhood_attention,
}
