"""Tensor subclasses without ``__new__``, which C++ code constructs."""

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right

from pytest_attnmem import measure
from pytest_attnmem.backends.tracing.dispatch_tracker import construct_past_modes


class Early(torch.Tensor):
    pass


construct_past_modes()


class Late(torch.Tensor):
    pass


class Own(torch.Tensor):
    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)


@pytest.mark.parametrize("kind", [Early, Late, Own])
def test_each_is_constructed_under_a_mode(kind):
    found = []
    measure(lambda: found.append(kind(torch.ones(2))), backend="cpu")
    assert type(found[0]) is kind
    assert found[0].tolist() == [1, 1]
    assert type(found[0] + 1) is kind


def test_a_second_call_changes_nothing():
    before = vars(torch.Tensor)["__init_subclass__"], Early.__new__
    construct_past_modes()
    assert (vars(torch.Tensor)["__init_subclass__"], Early.__new__) == before


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
def test_a_causal_bias_is_measured(backend):
    q = torch.randn(1, 2, 8, 8)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, q, q, attn_mask=causal_lower_right(8, 8)
    )
    found = []

    def program():
        bias = causal_lower_right(8, 8)
        x = torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=bias)
        found.append(torch.allclose(x, wanted, atol=1e-6))  # another order of the sums

    assert measure(program, backend=backend).unmeasured is None
    assert found == [True]
