"""Every kernel computes what the float64 reference says, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.kernels.reference import standard_attention

from .programs import poisoned
from .references import linear_reference, noise, over, seen

SHAPES = [
    (1, 1, 1, 1, 1, 1),
    (2, 3, 1, 7, 4, 5),
    (2, 3, 7, 1, 4, 5),
    (2, 2, 33, 100, 16, 8),
    (1, 2, 300, 129, 8, 8),
]
#: Largest absolute error of outputs, which are averages of standard normal values, and of
#: gradients relative to the largest one. Half types round scores of about 4 to 2**-9 of that.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
SOFTMAX = over([kernel for kernel in KERNELS if kernel.softmax and "cpu" in kernel.devices])
MASKED = over([kernel for kernel in KERNELS if kernel.mask])


def reference(
    kernel: Kernel,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """The kernel's result as float64 NumPy, from the values that its inputs have."""
    arrays = [tensor.detach().double().numpy() for tensor in (q, k, v)]
    if not kernel.softmax:
        return linear_reference(*arrays, causal)
    if kernel.pattern is not None:
        pattern = torch.as_tensor(seen(kernel.pattern, q.shape[2], k.shape[2], causal))
        if mask is None or mask.dtype == torch.bool:
            mask = pattern if mask is None else pattern & mask
        else:
            mask = mask.expand(*mask.shape[:-2], *pattern.shape).masked_fill(~pattern, -torch.inf)
    return standard_attention(*arrays, mask, causal=causal, scale=scale)[0]


def error(got: Tensor, expected: Any) -> float:
    return float((got.detach().double() - torch.as_tensor(expected)).abs().max())


def gradients(kernel: Kernel, tensors: tuple[Tensor, ...], causal: bool) -> list[Tensor]:
    """Returns the gradients of a loss that weighs each output with its own random number."""
    out = kernel.attention(*tensors, causal=causal)
    loss = (out * noise(*out.shape, seed=1).to(out.dtype)).sum()
    return list(torch.autograd.grad(loss, tensors))


@DTYPES
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_forward(kernel, causal, sizes, dtype, inputs):
    q, k, v = inputs(sizes, dtype)
    out = kernel.attention(q, k, v, causal=causal)
    assert out.dtype == dtype
    assert out.shape == (*q.shape[:3], v.shape[3])
    assert error(out, reference(kernel, q, k, v, causal)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_gradients_are_the_slopes_of_the_reference(kernel, causal, sizes, inputs):
    tensors = inputs(sizes, requires_grad=True)
    weights = noise(*kernel.attention(*tensors, causal=causal).shape, seed=1).numpy()
    step = 1e-5
    for index, gradient in enumerate(gradients(kernel, tensors, causal)):
        direction = noise(*gradient.shape, seed=2)

        def loss(distance, index=index, direction=direction):
            moved = list(tensors)
            moved[index] = moved[index] + distance * direction
            return float((reference(kernel, *moved, causal) * weights).sum())

        slope = (loss(step) - loss(-step)) / (2 * step)
        size = float(gradient.norm() * direction.norm())
        assert abs(float((gradient * direction).sum()) - slope) <= 1e-8 * max(1, size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_gradients_in_other_dtypes(kernel, causal, sizes, dtype, inputs):
    tensors = inputs(sizes, dtype, requires_grad=True)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    for got, expected in zip(
        gradients(kernel, tensors, causal), gradients(kernel, exact, causal), strict=True
    ):
        assert got.dtype == dtype
        assert error(got, expected) <= TOLERANCE[dtype] * max(1, float(expected.abs().max()))


def test_gradcheck(kernel, causal, inputs):
    tensors = inputs((1, 2, 5, 3, 2, 3), requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda q, k, v: kernel.attention(q, k, v, causal=causal), tensors
    )


def test_two_runs_are_equal_to_the_bit_and_all_is_written(kernel, causal, inputs):
    tensors = inputs((2, 3, 50, 70, 16, 8), torch.float32, requires_grad=True)

    def run():
        return [kernel.attention(*tensors, causal=causal), *gradients(kernel, tensors, causal)]

    with poisoned():
        first = run()
    # Equal, so that nothing of NaN is in them.
    assert all(torch.equal(one, other) for one, other in zip(first, run(), strict=True))


def test_layouts_other_than_contiguous(kernel, causal, inputs):
    tensors = inputs((2, 3, 50, 70, 16, 8))
    strided = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in tensors]
    out = kernel.attention(*strided, causal=causal)
    assert error(out, reference(kernel, *tensors, causal)) <= TOLERANCE[torch.float64]


@SOFTMAX
def test_large_scores_do_not_overflow(kernel, causal, inputs):
    q, k, v = inputs((1, 2, 40, 50, 8, 8), torch.float32)
    q, k = q * 100, k * 100
    out = kernel.attention(q, k, v, causal=causal)
    # A difference in float32 of scores of 10⁵ is off by 10⁻² at most.
    assert error(out, reference(kernel, q, k, v, causal)) <= 5e-2


@SOFTMAX
def test_scale_is_a_factor_of_q_in_gradients_too(kernel, causal, inputs):
    tensors = inputs((2, 3, 20, 30, 8, 4), requires_grad=True)
    factor = 0.7 * tensors[0].shape[3] ** 0.5  # of the scale that is not given

    def scaled(q, k, v):
        return kernel.attention(q, k, v, causal=causal, scale=0.7)

    def multiplied(q, k, v):
        return kernel.attention(q * factor, k, v, causal=causal)

    for got, expected in zip(
        *(torch.autograd.grad(f(*tensors).square().sum(), tensors) for f in (scaled, multiplied)),
        strict=True,
    ):
        assert error(got, expected) <= 1e-12


@SOFTMAX
def test_scale(kernel, causal, inputs):
    q, k, v = inputs((2, 3, 20, 30, 8, 4))
    out = kernel.attention(q, k, v, causal=causal, scale=0.7)
    assert error(out, reference(kernel, q, k, v, causal, scale=0.7)) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize(
    "shape", [(30,), (20, 30), (2, 1, 1, 30), (3, 20, 1), (2, 3, 20, 30)], ids=str
)
@MASKED
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(kernel, shape, kind, inputs):
    q, k, v = inputs((2, 3, 20, 30, 8, 4))
    mask = noise(*shape)
    mask = mask > -0.5 if kind == "bool" else mask
    out = kernel.attention(q, k, v, mask=mask)
    assert error(out, reference(kernel, q, k, v, False, mask)) <= TOLERANCE[torch.float64]


@MASKED
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_sees_nothing_gets_zeros(kernel, kind, inputs):
    tensors = inputs((2, 3, 5, 7, 8, 4), requires_grad=True)
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    if kind == "float":
        mask = torch.zeros(5, 7, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    out = kernel.attention(*tensors, mask=mask)
    out.square().sum().backward()
    assert out[:, :, 2].eq(0).all()
    assert error(out, reference(kernel, *tensors, False, mask)) <= 1e-13
    for tensor in tensors:
        assert tensor.grad.isfinite().all()
    assert tensors[0].grad[:, :, 2].eq(0).all()


@MASKED
def test_nan_is_not_hidden_by_a_mask(kernel, inputs):
    q, k, v = inputs((1, 1, 3, 4, 2, 2))
    q[0, 0, 1, 0] = torch.nan
    out = kernel.attention(q, k, v, mask=torch.ones(3, 4, dtype=torch.bool))
    assert out.isnan().any(-1).tolist() == [[[False, True, False]]]
