"""Linear attention: what it does with every key, and what it keeps."""

import pytest
import torch

from pytest_attnmem.kernels import linear
from pytest_attnmem.measurement.window_stack import window

from .references import linear_reference


def test_the_order_of_keys_does_not_matter(inputs):
    q, k, v = inputs((2, 3, 9, 7, 4, 5))
    order = torch.randperm(7)
    out = linear.attention(q, k, v)
    assert (linear.attention(q, k[:, :, order], v[:, :, order]) - out).abs().max() <= 1e-14


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_eps_is_added_to_the_sum_of_weights(eps, inputs):
    q, k, v = inputs((2, 3, 9, 7, 4, 5))
    expected = torch.as_tensor(linear_reference(q, k, v, False, eps))
    assert (linear.attention(q, k, v, eps=eps) - expected).abs().max() <= 1e-14


def test_features_of_nothing_give_zeros(inputs):
    q, k, v = inputs((1, 1, 4, 4, 2, 2))
    out = linear.attention(q, torch.full_like(k, -torch.inf), v)
    assert out.eq(0).all()


def test_causal_is_another_kernel(inputs):
    with pytest.raises(ValueError, match=r"^causal must be False in linear, got True; linear-caus"):
        linear.attention(*inputs((1, 1, 4, 4, 2, 2)), causal=True)


def test_nothing_but_the_output_is_retained_without_gradients(inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32)
    with window(cpu) as opened:
        out = linear.attention(q, k, v)
    assert opened.measurement.retained_bytes == out.nbytes


def test_memory_grows_with_the_length_not_its_square(inputs, peak):
    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32)
        return peak(lambda: linear.attention(*tensors))

    first, second, third = at(256), at(512), at(768)
    assert third - second == second - first > 0
