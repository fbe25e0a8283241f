"""Losses of preferences and of distillation, with the output layer: more of ``layers``.

The baselines are those of Hugging Face's trainers, as the tests of Liger-Kernel have them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from layers import PLAIN, Benchmark, first, output_layers, randn
from torch import Tensor


def log_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean log-probability of the labels of each sequence."""
    mask = labels != -100
    labels = torch.where(labels == -100, 0, labels)
    found = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (found * mask).sum(-1) / mask.sum(-1)


def odds_ratio(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Returns the term of ORPO."""
    odds = (chosen - rejected) - (
        torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected))
    )
    ratio = F.logsigmoid(odds)
    return 0.1 * ratio


def contrast(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Returns the term of CPO."""
    logits = chosen - rejected
    return F.logsigmoid(0.1 * logits) * 1.0 + F.logsigmoid(-0.1 * logits) * 0.0


def margin(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Returns the term of SimPO."""
    logits = chosen - rejected
    logits = logits - (0.5 / 0.1)
    return F.logsigmoid(0.1 * logits) * 1.0 + F.logsigmoid(-0.1 * logits) * 0.0


def preference(term: Callable[[Tensor, Tensor], Tensor], kernel: str) -> Callable[..., Benchmark]:
    """Returns the benchmark of a loss of chosen and rejected sequences."""

    def benchmark(provider: str, B: int, T: int, H: int, V: int, dtype: torch.dtype) -> Benchmark:
        heads = output_layers(H, V, dtype)
        x = randn(B, T, H, grad=True, dtype=dtype)
        target = torch.randint(V, (B, T), device="cuda")
        if provider not in PLAIN:
            module, name = kernel.split(":")
            fused = getattr(import_module(f"liger_kernel.chunked_loss.{module}"), name)
            return lambda: first(fused.apply(x, heads[1].weight, target)), "loss"

        def logits_and_terms() -> tuple[Tensor, ...]:
            chosen = B // 2
            outputs = x @ heads[0].weight.t()
            logits = outputs.float()
            nll = F.cross_entropy(logits[:chosen].view(-1, V), target[:chosen].view(-1))
            found = log_probabilities(logits, target)
            return found[:chosen], found[chosen:], logits[:chosen], logits[chosen:], nll

        def plain() -> Tensor:
            chosen, rejected, *_, nll = logits_and_terms()
            terms = term(chosen, rejected)
            loss = nll - terms.mean()
            return loss

        return plain, "loss"

    return benchmark


def jensen_shannon(student: Tensor, teacher: Tensor) -> Tensor:
    """Returns the divergence of two sets of logits."""
    log_q = F.log_softmax(student, dim=-1)
    log_p = F.log_softmax(teacher, dim=-1)
    mean = 0.5 * log_q.exp() + (1 - 0.5) * log_p.exp()
    log_mean = mean.log()
    student_kl = F.kl_div(log_mean, log_q, reduction="batchmean", log_target=True)
    teacher_kl = F.kl_div(log_mean, log_p, reduction="batchmean", log_target=True)
    return 0.5 * teacher_kl + (1 - 0.5) * student_kl


def cosine(student: Tensor, teacher: Tensor) -> Tensor:
    """Returns one less the cosine of two sets of logits."""
    q = F.normalize(student, p=2, dim=-1)
    p = F.normalize(teacher, p=2, dim=-1)
    similarity = F.cosine_similarity(q, p, dim=-1)
    loss = 1.0 * (1 - similarity)
    return loss.mean()


def distillation(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Benchmark]:
    """Returns the benchmark of a loss of a student's and a teacher's logits."""

    def benchmark(
        provider: str,
        BT: int,
        H: int,
        V: int,
        dtype: torch.dtype,
        bias: bool,
        weight_hard_loss: float,
        weight_soft_loss: float,
        ignore_index: int,
    ) -> Benchmark:
        students = output_layers(H // 2, V, dtype)
        teachers = output_layers(H, V, dtype)
        kept = torch.rand(BT, H // 2, device="cuda", dtype=dtype)
        inputs = [kept.detach().clone().requires_grad_() for _ in range(2)]
        x = torch.rand(BT, H, device="cuda", dtype=dtype)
        target = torch.randint(0, V, (BT,), device="cuda")

        def both() -> tuple[Tensor, Tensor, Tensor]:
            outputs = inputs[1].view(-1, H // 2) @ students[0].weight.t()
            with torch.no_grad():
                others = x.view(-1, H) @ teachers[0].weight.t()
            student = outputs.view(BT, -1).float()
            teacher = others.view(BT, -1).float()
            hard = F.cross_entropy(student.view(-1, V), target.view(-1))
            return student, teacher, hard

        def plain() -> Tensor:
            found = both()
            student, teacher, hard = found
            student /= 1.0
            teacher /= 1.0
            soft = loss(student, teacher)
            return weight_hard_loss * hard + weight_soft_loss * soft

        plain.kept = kept  # type: ignore[attr-defined]
        return plain, "loss"

    return benchmark


def policy(
    provider: str,
    B: int,
    T: int,
    H: int,
    V: int,
    importance_sampling_level: str,
    dtype: torch.dtype,
) -> Benchmark:
    """The loss of GRPO with a reference model."""
    modules = [output_layers(H, V, dtype) for _ in range(2)]
    head, reference = modules[0]
    x = randn(B, T, H, grad=True, dtype=dtype)
    tokens = torch.randint(0, V, (B, T), device="cuda")
    mask = torch.ones(B, T, device="cuda")
    advantages = randn(B, dtype=dtype)
    other = randn(B, T, H, dtype=dtype)

    def loss_and_metrics() -> tuple[Tensor, list[Tensor]]:
        logits = x @ head.weight.t()
        log_probs = F.log_softmax(logits.float(), dim=-1)
        found = log_probs.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            logits_of_other = other @ reference.weight.t()
            log_probs_of_other = F.log_softmax(logits_of_other.float(), dim=-1)
            given = log_probs_of_other.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1)
        old = found.detach()
        log_ratio = found - old
        if importance_sampling_level == "token":
            weights = log_ratio
        else:
            weights = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
            weights = weights.unsqueeze(-1)
        ratio = torch.exp(weights)
        clipped = torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
        terms = ratio * advantages.unsqueeze(1)
        terms_clipped = clipped * advantages.unsqueeze(1)
        loss = -torch.min(terms, terms_clipped)
        given = given.float()
        kl = torch.exp(given - found) - (given - found) - 1.0
        loss = loss + 0.1 * kl
        total = (loss * mask).sum() / torch.clamp(mask.sum(), min=1.0)
        metrics = [(kl * mask).sum() / torch.clamp(mask.sum(), min=1.0)]
        return total, metrics

    return lambda: loss_and_metrics()[0], "loss"


class Told:
    """A kernel that writes how many tiles each expert has: interpreting it would take minutes."""

    def __init__(self, kernel: Any, tiles: Tensor) -> None:
        self.kernel = kernel.kernel if isinstance(kernel, Told) else kernel
        self.tiles = tiles

    def __getitem__(self, grid: Any) -> Callable[..., None]:

        def launch(counts: Tensor, starts: Tensor, offsets: Tensor, **constants: Any) -> None:
            self.kernel[grid](counts, starts, offsets, **constants)
            offsets.copy_(self.tiles)

        return launch


def experts(
    provider: str, T: int, E: int, H: int, intermediate_dim: int, K: int, dtype: torch.dtype
) -> Benchmark:
    """A mixture of experts: a loop over them, or the fused kernels."""
    torch.manual_seed(42)
    x = randn(T, H, grad=True, dtype=dtype)
    gate_up = randn(E, 2 * intermediate_dim, H, grad=True, dtype=dtype) * 0.02
    down = randn(E, H, intermediate_dim, grad=True, dtype=dtype) * 0.02
    known = torch.randn(T, E)  # on the host, which reads how many tokens each expert has
    logits = known.to("cuda")
    index = torch.topk(logits, K, dim=-1).indices.to(torch.int32)
    weights = torch.softmax(torch.gather(logits, 1, index.long()), dim=-1).to(dtype)
    weights.requires_grad_()
    del logits
    probe = randn(8, 8, grad=True, dtype=dtype)  # the script probes the loop first
    F.linear(probe, probe).sum().backward()
    del probe
    if provider == "liger":
        module: Any = import_module("liger_kernel.ops.fused_moe")
        counts = torch.topk(known, K, dim=-1).indices.flatten().bincount(minlength=E)
        tiles = F.pad((counts / module.BLOCK_M_TOKEN).ceil().cumsum(0), (1, 0)).int()
        module._moe_router_prefix_sum_kernel = Told(module._moe_router_prefix_sum_kernel, tiles)
        fused = module.LigerFusedMoEFunction
        return lambda: fused.apply(x, gate_up, down, index, weights), torch.randn_like

    def plain() -> Tensor:
        final = torch.zeros_like(x)
        with torch.no_grad():
            mask = F.one_hot(index.long(), num_classes=E)
            mask = mask.permute(2, 1, 0)
            hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for expert in hit:
            number = expert[0]
            place, token = torch.where(mask[number])
            now = x[token]
            gate, up = F.linear(now, gate_up[number]).chunk(2, dim=-1)
            now = F.silu(gate) * up
            now = F.linear(now, down[number])
            now = now * weights[token, place, None]
            final.index_add_(0, token, now.to(final.dtype))
        return final

    return plain, torch.randn_like


def megatron_swiglu(provider: str, S: int, B: int, ffn_local: int) -> Benchmark:
    """The gated activation as Megatron calls it."""
    x = randn(S, B, 2 * ffn_local, grad=True, dtype=torch.bfloat16)

    def plain() -> Tensor:
        first, second = torch.chunk(x, 2, -1)
        return F.silu(first) * second

    def forgotten() -> Tensor:
        x.grad = None
        return plain()

    return forgotten, "sum"


BENCHMARKS: dict[str, Callable[..., Benchmark]] = {
    "fused_linear_orpo_loss": preference(odds_ratio, "orpo_loss:LigerFusedLinearORPOFunction"),
    "fused_linear_cpo_loss": preference(contrast, "cpo_loss:LigerFusedLinearCPOFunction"),
    "fused_linear_simpo_loss": preference(margin, "simpo_loss:LigerFusedLinearSimPOFunction"),
    "distill_jsd_loss": distillation(jensen_shannon),
    "distill_cosine_loss": distillation(cosine),
    "fused_linear_grpo_loss_token": policy,
    "fused_linear_grpo_loss_sequence": policy,
    "fused_moe": experts,
    "megatron_swiglu": megatron_swiglu,
}
