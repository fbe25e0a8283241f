"""Linear attention as a scan: chunks that do and do not divide, and the states that are kept."""

from __future__ import annotations

import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.linear_scan import BLOCK, MODEL, _scan, attention
from pytest_attnmem.measurement.window_stack import window

from .references import linear_reference

#: Against N = 33: one row, sizes that do and do not divide it, all of it, and more.
BLOCKS = [1, 7, 8, 11, 33, 64]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "linear-scan")


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("M", [10, 33, 50])
def test_chunks_change_nothing(block, M, inputs):
    tensors = inputs((2, 2, 33, M, 8, 4), requires_grad=True)
    out = attention(*tensors, block=block)
    expected = linear_reference(*(tensor.detach() for tensor in tensors), True)
    assert (out.detach() - torch.as_tensor(expected)).abs().max() <= 1e-13

    def gradients(block):
        return torch.autograd.grad(attention(*tensors, block=block).square().sum(), tensors)

    for got, other in zip(gradients(block), gradients(100), strict=True):
        assert (got - other).abs().max() <= 1e-12


@pytest.mark.parametrize("M", [3, 5, 7])
def test_gradcheck_over_chunks(M, inputs):
    tensors = inputs((1, 2, 5, M, 2, 3), requires_grad=True)
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, eps=0.3, block=2), tensors)


def test_what_comes_later_is_not_seen(inputs):
    q, k, v = inputs((2, 3, 9, 9, 4, 5))
    out = attention(q, k, v, block=4)
    k[:, :, 5:], v[:, :, 5:] = 9, 9
    assert torch.equal(attention(q, k, v, block=4)[:, :, :5], out[:, :, :5])


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_eps_is_added_to_the_sum_of_weights(eps, inputs):
    q, k, v = inputs((2, 3, 9, 7, 4, 5))
    expected = torch.as_tensor(linear_reference(q, k, v, True, eps))
    assert (attention(q, k, v, eps=eps, block=4) - expected).abs().max() <= 1e-14


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_inputs_are_rounded_once(dtype, inputs):
    q, k, v = inputs((1, 1, 2000, 2000, 48, 8), dtype)  # sums of weights to 96 000 and more
    exact = torch.as_tensor(linear_reference(q.double(), k.double(), v.double(), True))
    rounding = torch.finfo(dtype).eps / 2
    error = (attention(q, k, v).double() - exact).abs()
    assert (error <= rounding * exact.abs() + 1e-6).all()


@pytest.mark.parametrize("reverse", [False, True], ids=["prefix", "suffix"])
@pytest.mark.parametrize("count", [*range(1, 18), 31, 32, 33, 100])
def test_the_scan_is_a_cumulative_sum(count, reverse):
    x = torch.arange(2 * count).view(count, 2)
    expected = x.flip(0).cumsum(0).flip(0) if reverse else x.cumsum(0)
    _scan(x, range(count)[::-1] if reverse else range(count))
    assert torch.equal(x, expected)


class Additions(TorchDispatchMode):
    """Counts additions of one tensor to another."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.add_.Tensor
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("count", "depth"), [(1, 0), (2, 1), (3, 2), (64, 11), (1000, 18)])
def test_the_scan_is_of_logarithmic_depth(count, depth):
    with Additions() as additions:
        _scan(torch.ones(count, 1), range(count))
    assert additions.count == depth


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_checkpoints_are_saved(dtype, inputs, saved):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    out, kept = saved(lambda: attention(q, k, v, block=8))
    assert [x.data_ptr() for x in kept[:4]] == [x.data_ptr() for x in (q, k, v, out)]
    factor, states = kept[4:]
    assert factor.shape == (2, 3, 33, 1)
    assert states.shape == (5, 2 * 3, 8, 4 + 1)  # before rows 0, 8, 16, 24 and 32
    assert states[0].eq(0).all()
    assert states.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out = attention(q, k, v, block=8)
    kept = 2 * 3 * (33 + 5 * 8 * 5) * 4 if how == "training" else 0  # factors, states
    assert opened.measurement.retained_bytes == out.nbytes + kept


@pytest.mark.parametrize("wanted", ["q", "k", "v"])
def test_gradient_of_one_input(wanted, inputs):
    tensors = dict(zip("qkv", inputs((1, 2, 5, 7, 4, 3)), strict=True))
    tensors[wanted].requires_grad_()
    attention(**tensors).sum().backward()
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [wanted]


def test_twice_differentiated_is_an_error(inputs):
    tensors = inputs((1, 1, 3, 3, 2, 2), requires_grad=True)
    first = torch.autograd.grad(attention(*tensors).square().sum(), tensors, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        first[0].sum().backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal": False}, "causal must be True in linear-scan, got False; linear is the one"),
        ({"block": 0}, "block must be at least 1, got 0"),
        ({"block": -3}, "block must be at least 1, got -3"),
    ],
)
def test_options_that_do_not_fit(options, message, inputs):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention(*inputs((1, 1, 3, 3, 2, 2)), **options)


@pytest.mark.parametrize("sizes", [(2, 2, 0, 5, 4, 3), (0, 2, 5, 5, 4, 3)], ids=str)
def test_no_queries(sizes, inputs):
    q, k, v = inputs(sizes, requires_grad=True)
    out = attention(q, k, v)
    assert out.shape == (sizes[0], 2, sizes[2], 3)
    out.sum().backward()
    assert all(x.grad.shape == x.shape and x.grad.eq(0).all() for x in (q, k, v))


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", BLOCKS[::2])
@pytest.mark.parametrize("M", [10, 50])
def test_the_model_over_chunks(M, block, dtype, training, inputs, peaks):
    tensors = inputs((2, 2, 33, M, 8, 12), dtype)
    real, program = peaks(training, tensors, block=block)
    assert program[0] == program[1]
    assert real[0] == real[1]  # half types too: their products are done in float32


def test_defaults_are_the_functions(inputs, peak):
    tensors = inputs((1, 1, BLOCK + 1, BLOCK + 1, 4, 4), torch.float32)
    assert MODEL.forward.defaults == MODEL.training.defaults == {"block": BLOCK}
    assert peak(lambda: attention(*tensors)) == peak(lambda: attention(*tensors, block=BLOCK))


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_memory_grows_with_the_length_not_its_square(training, inputs, peak):
    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32, requires_grad=training)
        if training:
            return peak(lambda: attention(*tensors, block=8).sum().backward())
        return peak(lambda: attention(*tensors, block=8))

    first, second, third = at(64), at(128), at(192)
    assert third - second == second - first > 0
