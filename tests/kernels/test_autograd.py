"""Kernels behave like the operators of autograd."""

from __future__ import annotations

import pytest
import torch

from pytest_attnmem.kernels import KERNELS

from .references import over

#: The kernels whose backward pass is their own.
FUSED = (
    *("block-sparse", "chunked", "flash", "sliding-window", "strided"),
    *("linear-chunked", "linear-recurrent", "linear-scan"),
)


@pytest.mark.parametrize("sizes", [(2, 2, 0, 5, 4, 3), (0, 2, 5, 5, 4, 3)], ids=str)
def test_no_queries(kernel, causal, sizes, inputs):
    q, k, v = inputs(sizes, requires_grad=True)
    out = kernel.attention(q, k, v, causal=causal)
    assert out.shape == (*q.shape[:3], v.shape[3])
    out.sum().backward()
    assert all(x.grad.shape == x.shape and x.grad.eq(0).all() for x in (q, k, v))


@pytest.mark.parametrize("wanted", ["q", "k", "v"])
def test_gradient_of_one_input(kernel, causal, wanted, inputs):
    tensors = dict(zip("qkv", inputs((1, 2, 5, 7, 4, 3)), strict=True))
    tensors[wanted].requires_grad_()
    kernel.attention(**tensors, causal=causal).sum().backward()
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [wanted]


@over([kernel for kernel in KERNELS if kernel.name in FUSED])
def test_twice_differentiated_is_an_error(kernel, causal, inputs):
    tensors = inputs((1, 1, 3, 3, 2, 2), requires_grad=True)
    out = kernel.attention(*tensors, causal=causal)
    first = torch.autograd.grad(out.square().sum(), tensors, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        first[0].sum().backward()
