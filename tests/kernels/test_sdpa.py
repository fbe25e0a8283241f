"""SDPA pinned to a backend: it takes that one or says why not, and what the CPU's flash needs."""

from __future__ import annotations

import re

import pytest
import torch

from pytest_attnmem.kernels import sdpa
from pytest_attnmem.symbols.attention_shape import Source, gather

from .references import BOTH, Case

NODES = {
    sdpa.flash: "ScaledDotProductFlashAttentionForCpuBackward0",
    sdpa.math: "UnsafeViewBackward0",  # of the product with v: a composite of plain operators
}


@pytest.mark.parametrize("attention", NODES, ids=lambda attention: attention.__name__)
def test_the_backend_is_the_one_asked_for(attention, inputs):
    out = attention(*inputs((1, 2, 5, 7, 8, 8), requires_grad=True))
    assert out.grad_fn.name() == NODES[attention]


def test_what_was_allowed_before_is_allowed_after(inputs):
    enabled = torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.math_sdp_enabled
    before = [flag() for flag in enabled]
    q, k, v = inputs((1, 2, 5, 7, 8, 8))
    sdpa.math(q, k, v)
    with pytest.raises(RuntimeError):
        sdpa.flash(q, k, v[..., :4])
    assert [flag() for flag in enabled] == before


@pytest.mark.parametrize(
    ("attention", "change", "message"),
    [
        (
            sdpa.flash,
            lambda q, k, v: (q, k, v[..., :4]),
            "sdpa's flash backend refuses: Flash attention requires q,k,v to have the same last"
            " dimension. Got Query.size(-1): 8, Key.size(-1): 8, Value.size(-1): 4 instead.",
        ),
        (
            sdpa.flash,
            lambda *qkv: [tensor.to("meta") for tensor in qkv],
            "sdpa has no choice of backends on meta, and flash was asked for",
        ),
        (
            sdpa.efficient,
            lambda *qkv: qkv,
            "sdpa's efficient backend refuses: there is none for float64 on cpu",
        ),
        (
            sdpa.cudnn,
            lambda *qkv: qkv,
            "sdpa's cudnn backend refuses: there is none for float64 on cpu",
        ),
    ],
)
def test_a_refusal_is_one_line(attention, change, message, inputs):
    tensors = change(*inputs((1, 2, 5, 7, 8, 8)))
    with pytest.raises(RuntimeError, match="^" + re.escape(message)) as refusal:
        attention(*tensors)  # and no warning: pytest would raise it
    assert "\n" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_other_errors_of_torch_pass_through(inputs, monkeypatch):
    def out_of_memory(*args, **kwargs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", out_of_memory)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        sdpa.flash(*inputs((1, 2, 5, 7, 8, 8)))


def test_causal_and_mask_exclude_each_other(inputs):
    mask = torch.ones(5, 7, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"^causal and mask exclude each other in sdpa; "):
        sdpa.math(*inputs((1, 2, 5, 7, 8, 8)), causal=True, mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@BOTH
@pytest.mark.parametrize(
    ("threads", "N", "M"),
    # Tiles change at 192 and 768 queries, and at 512 keys.
    [(1, 31, 33), (2, 33, 511), (2, 191, 513), (3, 192, 20), (2, 767, 30), (2, 768, 530)],
)
def test_each_thread_has_a_tile(threads, N, M, training, dtype, inputs, peak, cpu):
    torch.set_num_threads(threads)
    try:
        case = Case(sdpa.KERNELS[0], training, inputs((1, 3, N, M, 8, 8), dtype), cpu)
        measured = peak(case)
    finally:
        torch.set_num_threads(1)
    assert case.shape.threads == threads
    assert measured == case.model.peak(case.shape, cpu.kinds)


def test_efficients_program_is_what_its_meta_kernels_return():
    B, H, N, M, d, dv = 2, 3, 50, 40, 16, 8
    q, k, v = (
        torch.empty(B, H, *size, device="meta", dtype=torch.float16)
        for size in ((N, d), (M, d), (M, dv))
    )
    aten = torch.ops.aten
    for gradient in (False, True):
        out, lse, seed, offset = aten._scaled_dot_product_efficient_attention(
            q, k, v, None, gradient
        )
        sizes = {"B": B, "H": H, "N": N, "M": M, "d": d, "dv": dv, "itemsize": 2}
        shape = gather([Source("the test", sizes)])
        model = sdpa.EFFICIENT.training if gradient else sdpa.EFFICIENT.forward
        attention = model.live(shape)["attention"]
        assert sum(attention.values()) == out.nbytes + lse.nbytes
    *grads, _ = aten._scaled_dot_product_efficient_attention_backward(
        out, q, k, v, None, out, lse, seed, offset, 0.0, (True, True, True, False)
    )
    backward = model.live(shape)["backward"]
    assert [backward[f"{name} gradient"] for name in "qkv"] == [grad.nbytes for grad in grads]
    # Laid out as [B, N, H, d]: autograd will copy them.
    assert all(grad.transpose(1, 2).is_contiguous() for grad in grads)
