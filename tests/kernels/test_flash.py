"""Flash: what it saves, blocks that do and do not divide, and its model over block sizes."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.kernels import KERNELS
from pytest_attnmem.kernels.flash import BLOCK_K, BLOCK_Q, MODEL, attention
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

#: (block_q, block_k) against N = 33 and M = 50: of one row, that divide neither, the one longer
#: than the other, of one tile, and larger than everything.
BLOCKS = [(1, 50), (33, 1), (8, 8), (7, 16), (16, 7), (33, 50), (100, 9), (9, 100), (64, 128)]
EXACT = (torch.float32, torch.float64)
DTYPES = (*EXACT, torch.bfloat16, torch.float16)


@pytest.fixture
def kernel():
    return next(kernel for kernel in KERNELS if kernel.name == "flash")


def saved_by(function):
    """Returns the result of ``function``, and the tensors that autograd saves meanwhile."""
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        return function(), saved


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_five_tensors_are_saved(dtype, causal, inputs):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), dtype, requires_grad=True)
    out, saved = saved_by(lambda: attention(q, k, v, causal=causal, block_q=8, block_k=8))
    assert [x.data_ptr() for x in saved[:4]] == [x.data_ptr() for x in (q, k, v, out)]
    (lse,) = saved[4:]
    assert lse.shape == (2, 3, 33)
    assert lse.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    scores = q.detach().double() @ k.detach().double().mT * 8**-0.5
    if causal:
        scores.masked_fill_(torch.ones(33, 50, dtype=torch.bool).triu(1), -torch.inf)
    accuracy = 1e-13 if dtype == torch.float64 else 1e-5
    assert (lse.double() - scores.logsumexp(-1)).abs().max() <= accuracy


@pytest.mark.parametrize("how", ["no_grad", "no requires_grad", "training"])
def test_what_is_retained(how, inputs, cpu):
    q, k, v = inputs((2, 3, 33, 50, 8, 4), torch.float32, requires_grad=how != "no requires_grad")
    with torch.set_grad_enabled(how != "no_grad"), window(cpu) as opened:
        out, saved = saved_by(lambda: attention(q, k, v))
    assert len(saved) == (5 if how == "training" else 0)
    saved.clear()
    lse_bytes = 2 * 3 * 33 * 4 if how == "training" else 0
    assert opened.measurement.retained_bytes == out.nbytes + lse_bytes


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_blocks_change_nothing(blocks, causal, inputs):
    tensors = inputs((2, 2, 33, 50, 8, 4), requires_grad=True)
    options = dict(zip(("block_q", "block_k"), blocks, strict=True))
    out = attention(*tensors, causal=causal, **options)
    arrays = [tensor.detach().numpy() for tensor in tensors]
    expected, _ = standard_attention(*arrays, causal=causal)
    assert (out.detach() - torch.as_tensor(expected)).abs().max() <= 1e-13

    def gradients(**options):
        out = attention(*tensors, causal=causal, **options)
        return torch.autograd.grad(out.square().sum(), tensors)

    for got, other in zip(gradients(**options), gradients(), strict=True):
        assert (got - other).abs().max() <= 1e-12


@pytest.mark.parametrize("blocks", [(2, 3), (5, 1)], ids=str)
def test_gradcheck_over_blocks(blocks, causal, inputs):
    block_q, block_k = blocks
    tensors = inputs((1, 2, 5, 4, 2, 3), requires_grad=True)

    def call(q, k, v):
        return attention(q, k, v, causal=causal, scale=0.7, block_q=block_q, block_k=block_k)

    assert torch.autograd.gradcheck(call, tensors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_inputs_are_rounded_once(dtype, causal, inputs):
    q, k, v = inputs((1, 2, 40, 3000, 8, 8), dtype)
    out = attention(q, k, v, causal=causal)
    exact = torch.as_tensor(
        standard_attention(q.double(), k.double(), v.double(), causal=causal)[0]
    )
    rounding = torch.finfo(dtype).eps / 2
    assert ((out.double() - exact).abs() <= rounding * exact.abs() + 1e-5).all()


@pytest.mark.parametrize("name", ["block_q", "block_k"])
@pytest.mark.parametrize("size", [0, -1])
def test_blocks_have_rows(name, size, inputs):
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, got {size}$"):
        attention(*inputs((1, 1, 3, 3, 2, 2)), **{name: size})


class Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.baddbmm_.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("N", "M", "block_q", "block_k", "tiles"),
    [
        (64, 64, 16, 16, 4 + 3 + 2 + 1),
        (64, 64, 64, 8, 8),
        (64, 64, 8, 64, 8),
        (64, 64, 32, 16, 2 + 4),
        (64, 64, 16, 32, 1 + 1 + 2 + 2),
        (16, 100, 8, 10, 1 + 2),
        (100, 16, 50, 8, 2 + 2),
    ],
)
def test_causal_skips_what_is_above_the_diagonal(N, M, block_q, block_k, tiles, inputs):
    tensors = inputs((1, 1, N, M, 4, 4), requires_grad=True)
    with Products() as forward:
        out = attention(*tensors, causal=True, block_q=block_q, block_k=block_k)
    with Products() as backward:
        out.sum().backward()
    assert (forward.count, backward.count) == (2 * tiles, 5 * tiles)


def held_to_model(training, peak, cpu, dtype, q, k, v, **options):
    """Measured and modelled peak, then both of the program alone."""

    def forward():
        with torch.no_grad():
            return attention(q, k, v, **options)

    def both():
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]  # whose gradients are theirs
        attention(*leaves, **options).sum().backward()

    (B, H, N, d), (M, dv) = q.shape, v.shape[2:]
    sizes = {"B": B, "H": H, "N": N, "M": M, "d": d, "dv": dv, "dtype": dtype, **options}
    shape = gather([Source("the test", sizes), Source("the backend", cpu.symbols)])
    model = MODEL.training if training else MODEL.forward
    call = both if training else forward
    return (
        (peak(call), model.peak(shape, cpu.kinds)),
        (peak(call, trace=True), model.peak(shape)),
    )


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_the_model_over_blocks(blocks, dtype, training, causal, inputs, peak, cpu):
    tensors = inputs((2, 2, 33, 50, 8, 12), dtype, requires_grad=training)
    options = dict(zip(("block_q", "block_k"), blocks, strict=True), causal=causal)
    real, program = held_to_model(training, peak, cpu, dtype, *tensors, **options)
    assert program[0] == program[1]
    assert real[0] == real[1]  # half types too: their products are done in float32


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 4, 4, 1, 64),
        (1, 1, 4, 4, 64, 1),
        (1, 1, 100, 1, 1, 1),
        (1, 1, 300, 1, 64, 1),
        (1, 1, 1, 1, 1, 500),
    ],
    ids=str,
)
def test_the_model_at_the_edges(sizes, dtype, training, inputs, peak, cpu):
    tensors = inputs(sizes, dtype, requires_grad=training)
    options = {"block_q": 4, "block_k": 4}
    real, program = held_to_model(training, peak, cpu, dtype, *tensors, **options)
    assert (real[0], program[0]) == (real[1], program[1])


def test_defaults_are_the_functions(inputs, peak):
    tensors = inputs((1, 1, BLOCK_Q + 1, BLOCK_K + 1, 4, 4), torch.float32)
    assert MODEL.forward.defaults == {"causal": 0, "block_q": BLOCK_Q, "block_k": BLOCK_K}
    assert peak(lambda: attention(*tensors)) == (
        peak(lambda: attention(*tensors, block_q=BLOCK_Q, block_k=BLOCK_K))
    )


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
def test_memory_grows_with_N_not_its_square(training, inputs, peak):
    def at(N):
        tensors = inputs((1, 2, N, N, 8, 8), torch.float32, requires_grad=training)
        if training:
            return peak(lambda: attention(*tensors, block_q=16, block_k=16).sum().backward())
        return peak(lambda: attention(*tensors, block_q=16, block_k=16))

    first, second, third = at(64), at(128), at(192)
    assert third - second == second - first
