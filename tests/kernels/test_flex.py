"""flex_attention: what the compiler makes of it on the CPU, and that nothing else runs."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_attnmem.kernels.flex import BLOCK, MODEL, attention
from pytest_attnmem.kernels.reference import standard_attention
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

#: A module that the compiler imports raises this warning.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")
COMPILER = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="there is no C++ compiler"
)
#: (B, H, N, M, d, dv), dtype, causal, tolerance; a case takes seconds to compile.
CASES = [
    ((2, 2, 200, 300, 16, 24), torch.float32, True, 1e-5),
    ((1, 3, 1, 700, 16, 8), torch.float32, False, 1e-5),
    ((2, 2, 50, 33, 8, 16), torch.bfloat16, True, 5e-2),
    ((1, 1, 1, 1, 1, 1), torch.float16, False, 1e-2),
]


def inputs(sizes, dtype):
    """Tensors with rows of NaN behind each head's: a kernel that reads those shows it."""
    B, H, N, M, d, dv = sizes
    random = torch.Generator().manual_seed(0)
    made = []
    for length, width in ((N, d), (M, d), (M, dv)):
        whole = torch.full((B, H, length + 16, width), torch.nan, dtype=dtype)
        tensor = whole[:, :, :length]
        made.append(tensor.copy_(torch.randn(tensor.shape, generator=random, dtype=torch.float64)))
    return made


def reference(tensors, **options):
    arrays = [x.double().numpy() for x in tensors]
    return torch.as_tensor(standard_attention(*arrays, **options)[0])


class Passing(TorchDispatchMode):
    """Does nothing; the compiler gives way to any."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def uncompiled():
    return torch.compiler.set_stance("force_eager")  # at once


EAGER = pytest.mark.parametrize("eager", [Passing, uncompiled])


@COMPILER
@EAGER
def test_a_refusal_leaves_nothing_behind(eager):
    sizes, dtype, causal, _ = CASES[0]  # compiled here, and not again for the test below
    tensors = inputs(sizes, dtype)
    with eager(), pytest.raises(RuntimeError, match="compiled only"):
        attention(*tensors, causal=causal)
    assert attention(*tensors, causal=causal).shape == (2, 2, 200, 24)


@COMPILER
@pytest.mark.parametrize(("sizes", "dtype", "causal", "tolerance"), CASES, ids=str)
def test_what_is_computed_and_what_it_takes(sizes, dtype, causal, tolerance, peak, cpu):
    tensors = inputs(sizes, dtype)
    out = attention(*tensors, causal=causal)
    assert out.dtype == dtype
    assert (out - reference(tensors, causal=causal)).abs().max() <= tolerance
    assert torch.equal(attention(*tensors, causal=causal), out)

    symbols = dict(zip(("B", "H", "N", "M", "d", "dv"), sizes, strict=True), causal=causal)
    shape = gather(
        [Source("the test", {**symbols, "dtype": dtype}), Source("the backend", cpu.symbols)]
    )
    measured = peak(lambda: attention(*tensors, causal=causal))
    if dtype == torch.float32:
        assert measured == MODEL.forward.peak(shape, cpu.kinds)
    assert measured >= MODEL.forward.peak(shape)  # how halves are packed is the machine's own
    with window(cpu) as opened:
        kept = attention(*tensors, causal=causal)
    assert opened.measurement.retained_bytes == kept.nbytes


def alibi(score, b, h, i, j):
    return score - 0.1 * (i - j).abs()


def near(b, h, i, j):
    return (i - j).abs() < 10


@COMPILER
def test_options(poison):
    tensors = inputs((1, 2, 140, 140, 8, 8), torch.float32)
    numbers = torch.full((1, 1, 2), 2, dtype=torch.int32)
    every = torch.arange(2, dtype=torch.int32).expand(1, 1, 2, 2).contiguous()
    band = BlockMask.from_kv_blocks(
        numbers, every, BLOCK_SIZE=BLOCK, mask_mod=near, seq_lengths=(140, 140)
    )
    out = attention(*tensors, scale=0.7, score_mod=alibi, block_mask=band)
    distance = (torch.arange(140)[:, None] - torch.arange(140)).abs().double()
    bias = (-0.1 * distance).masked_fill(distance >= 10, -torch.inf)
    arrays = [x.double().numpy() for x in tensors]
    expected = standard_attention(*arrays, bias.numpy(), scale=0.7)[0]
    assert (out - torch.as_tensor(expected)).abs().max() <= 1e-5


@EAGER
def test_the_dense_fallback_is_refused(eager):
    message = (
        "flex runs compiled only, and something keeps torch.compile from it here: its dense"
        " fallback makes the N×M scores"
    )
    tensors = inputs((1, 1, 5, 5, 4, 4), torch.float32)
    with eager(), pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        attention(*tensors)


def test_the_compilers_refusal_is_one_line():
    def broken(score, b, h, i, j):
        torch._dynamo.graph_break()
        return score

    tensors = inputs((1, 1, 5, 5, 4, 4), torch.float32)
    with pytest.raises(RuntimeError, match=r"^flex_attention's compiler refuses: ") as refusal:
        attention(*tensors, score_mod=broken)
    assert "\n" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_there_is_no_backward_on_the_cpu():
    q, k, v = inputs((1, 1, 5, 5, 4, 4), torch.float32)
    message = r"^flex has no backward pass on cpu: call it under torch.no_grad\(\)$"
    with pytest.raises(RuntimeError, match=message):
        attention(q, k.requires_grad_(), v)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda q, k, v: (q, k[:, :, :, :3], v),
            {},
            "k must have shape [B, H, M, d] = [1, 1, M, 4] with M >= 1, got [1, 1, 5, 3]",
        ),
        (
            lambda *qkv: [x.double() for x in qkv],
            {},
            "q must be of one of torch.float16, torch.bfloat16, torch.float32 in flex, got"
            " torch.float64",
        ),
        (
            lambda *qkv: qkv,
            {"causal": True, "block_mask": object()},
            "causal and block_mask exclude each other in flex; put both in the mask",
        ),
    ],
)
def test_what_does_not_fit(change, options, message):
    tensors = change(*inputs((1, 1, 5, 5, 4, 4), torch.float32))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        attention(*tensors, **options)


def test_memory_grows_with_N_not_its_square():
    def at(N, model):
        sizes = {"B": 1, "H": 8, "N": N, "d": 64, "dtype": "float16", "causal": 1, "threads": 2}
        return model.peak(gather([Source("the test", sizes)]), ("cuda",))

    for model in (MODEL.forward, MODEL.training):
        first, second, third = (at(count * BLOCK * 8, model) for count in (1, 2, 3))
        assert third - second == second - first > 0
