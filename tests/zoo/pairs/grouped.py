"""Query heads that share keys and values."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from zoo.pair import pair


@pair(
    8,
    "",
    "keys and values are copied for every query head",
    operator="clone",
    limit="2*H*N*M*itemsize + H*N*d*itemsize",
    M=128,
)
def keys_copied_for_heads(qkv, M, *, bad):
    q, k, v = qkv(1, 8, 16, 32, Hkv=2, M=M)
    if bad:
        shape = (1, 2, 4, M, 32)
        k = k[:, :, None].expand(shape).reshape(1, 8, M, 32)  # guilty
        v = v[:, :, None].expand(shape).reshape(1, 8, M, 32)  # guilty
        return (q @ k.mT).softmax(-1) @ v  # guilty
    rows = q.view(1, 2, 4 * 16, 32)
    return ((rows @ k.mT).softmax(-1) @ v).view(1, 8, 16, 32)


class Values(torch.autograd.Function):
    """Weights times values, whose gradient may be summed over heads late or at once."""

    @staticmethod
    def forward(ctx, weights, v, late):
        ctx.late = late
        ctx.save_for_backward(weights, v)
        return weights @ v

    @staticmethod
    def backward(ctx, grad):
        weights, v = ctx.saved_tensors
        if ctx.late:
            dv = sum_late(weights, grad)
        else:
            dv = torch.zeros_like(v)
            for one, of_one in zip(weights[0], grad[0], strict=True):
                dv[0, 0].addmm_(one.mT, of_one)
        return None, dv, None


@pair(
    8,
    "ffpa-attn#301",
    "the gradients of keys are made for every query head, and summed at the end",
    operator="bmm",
    limit="(4*N + 2*128)*32*4 + 1 KiB",
    N=16,
)
def gradients_of_query_heads(qkv, N, *, bad):
    weights, _, _ = qkv(1, 4, N, 128)
    _, _, v = qkv(1, 4, N, 128, Hkv=1, M=128, dv=32, requires_grad=True)
    Values.apply(weights, v, bad).sum().backward()
    return v.grad


def sum_late(weights, grad):
    """The gradient of each head, then their sum."""
    return (weights.mT @ grad).sum(1, keepdim=True)  # guilty: gradients_of_query_heads


@pair(
    3,
    "transformers#46960",
    "the fused kernel does not take shared keys, and the dense kernel runs instead",
    operator="bmm",
    limit="6*H*N*d*itemsize + 2 MiB",
    contract="O(N)",
    N=1024,
)
def grouped_falls_back(qkv, N, *, bad):
    q, k, v = qkv(1, 2, N, 16, Hkv=1)
    if bad:
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(q, k, v, enable_gqa=True)  # guilty
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        return scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q))
