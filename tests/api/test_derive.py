"""Closed forms derived from code, checked against measurements of the same programs."""

import random

import pytest
import torch
from torch import nn

from pytest_attnmem import derive
from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.simulated import Simulated, program_only
from pytest_attnmem.budgets.parsing import parse
from pytest_attnmem.errors import BudgetError, CannotSimulate
from pytest_attnmem.kernels import linear_causal
from pytest_attnmem.profiles import PROFILES

QKV = ("B H N d", "B H N d", "B H N d")


def naive(q, k, v):
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


def test_standard_attention_forward_and_backward():
    found = derive(naive, *QKV, backward=True)
    assert str(found.polynomial) == "12*B*H*N^2 + 8*B*H*N*d + 8"
    assert (found.how, found.degree("N"), found.degree("d")) == ("derived", 2, 1)
    assert found.evaluate(B=2, H=8, N=1024, d=64) == 12 * 16 * 2**20 + 8 * 16 * 2**16 + 8
    scores, rows, scalars = found.terms
    assert scores.text == "12*B*H*N^2"
    assert [(h.shape, h.dtype, h.op) for h in scores.held] == [
        ("[B, H, N, N]", "float32", "softmax"),
        ("[B*H, N, N]", "float32", "bmm"),
        ("[B, H, N, N]", "float32", "softmax_backward_data"),
    ]
    assert scores.held[0].where.startswith("test_derive.py:")
    assert scores.held[0].function == "naive"
    assert [h.bytes for h in scalars.held] == ["4", "4"]
    assert rows.text == "8*B*H*N*d"


def test_a_profile_brings_the_scratch_of_its_kernels():
    found = derive(naive, *QKV, backward=True, backend="simulated:H100")
    assert str(found.polynomial) == "16*B*H*N^2 + 8*B*H*N*d + 8"
    assert str(found.scratch) == "4*B*H*N^2"
    assert str(found.without_scratch.polynomial) == "12*B*H*N^2 + 8*B*H*N*d + 8"


def test_where_one_of_several_is_the_largest_all_are_told():
    found = derive(naive, *QKV)
    assert str(found) == "max(8*B*H*N^2, 4*B*H*N^2 + 4*B*H*N*d)"
    first, second = found.candidates
    assert first.region == "for N >= d"
    assert second.region == "for N <= d"
    assert found.evaluate(B=1, H=1, N=16, d=64) == 4 * 256 + 4 * 16 * 64
    assert parse((found,), {}).limits["default"].value is found  # it is a budget


def test_the_state_of_causal_linear_attention_grows_with_each_token():
    found = derive(linear_causal.attention, *QKV, backward=True)
    assert str(found.polynomial) == "16*B*H*N*d^2 + 16*B*H*N*d + 8"


@pytest.mark.parametrize(("weights", "degree"), [(True, 2), (False, 1)])
def test_attention_weights_make_a_layer_quadratic(weights, degree):
    layer = nn.MultiheadAttention(256, 4, batch_first=True)

    def forward(x):
        return layer(x, x, x, need_weights=weights)

    found = derive(forward, "B N 256", backward=True)
    assert (found.degree("N"), found.degree("B")) == (degree, 1)
    assert layer.in_proj_weight.grad is None


PROGRAMS = {
    "standard": (naive, QKV, True),
    "masked": (
        lambda q, k, v: (
            (q @ k.mT).masked_fill(torch.ones_like(q @ k.mT, dtype=torch.bool), -1e9).softmax(-1)
            @ v
        ),
        QKV,
        True,
    ),
    "odd": (lambda x: torch.cat([x, x[:1]]) + 1, ("N",), False),
    "cross": (lambda q, k: (q @ k.mT).relu(), ("B N d", "B M d"), True),
    "tokens": (lambda t: nn.functional.one_hot(t, 32).float(), ("int64: B N",), False),
}


@pytest.mark.parametrize(("program", "shapes", "backward"), PROGRAMS.values(), ids=PROGRAMS)
def test_at_any_shape_the_form_is_what_a_simulated_run_needs(program, shapes, backward):
    found = derive(program, *shapes, backward=bool(backward))
    draw = random.Random(0)
    primed = PrimedBackend(Simulated(PROFILES["H200"], program_only), 0)
    for _ in range(6):
        sizes = {"B": draw.randint(2, 6), "H": draw.randint(2, 9), "d": draw.randint(1, 20) * 8}
        sizes |= {"N": draw.randint(2, 9) * 128, "M": draw.randint(2, 9) * 128}
        assert peak(primed, program, shapes, sizes, backward) == found.evaluate(
            {name: sizes[name] for name in found.symbols}
        )


def peak(primed, program, shapes, sizes, backward):
    def made(shape):
        kind, _, dims = shape.rpartition(":")
        numbers = [sizes.get(dim) or int(dim) for dim in dims.split()]
        return torch.empty(
            numbers,
            device="cuda",
            dtype=getattr(torch, kind or "float32"),
            requires_grad=bool(backward),
        )

    with primed.backend.world():
        inputs = [made(shape) for shape in shapes]

    def run():
        out = program(*inputs)
        if backward:
            out.sum().backward()
        return out

    measurement, _ = primed.run(run)
    if isinstance(program, nn.Module):
        program.zero_grad()
    assert measurement.unmeasured is None
    return measurement.peak_bytes


def test_a_loop_over_blocks_is_interpolated():
    def tiles(q, k, v):
        out = torch.empty_like(q)
        for start in range(0, q.shape[2], 64):
            rows = slice(start, start + 64)
            out[:, :, rows] = (q[:, :, rows] @ k[:, :, :64].mT).softmax(-1) @ v[:, :, :64]
        return out

    found = derive(tiles, *QKV, sizes={"d": [16, 32, 48, 64]})
    assert found.how == "interpolated"
    assert str(found) == "4*B*H*N*d + 32768*B*H"
    with pytest.raises(BudgetError) as error:  # another phase is the largest from d=65
        derive(tiles, *QKV)
    assert "no polynomial goes through the peaks at B=2/3/4/5/6" in str(error.value)


SLIPS = {
    "values": (lambda q: q if q.sum() > 0 else -q, ("N d",), CannotSimulate, "needs the values"),
    "nothing": (lambda q: None, ("N d",), BudgetError, "the function returned None"),
    "no gradient": (
        lambda q: q.detach(),
        ("N d",),
        BudgetError,
        "which has no tensor with a gradient",
    ),
    "no shape": (naive, (), BudgetError, "each tensor argument needs a shape"),
    "a bad shape": (naive, ("B, H & N",), BudgetError, "cannot read shape 'B, H & N'"),
    "no symbol": (naive, ("2 2 8 8",) * 3, BudgetError, "the shapes have no symbol"),
    "rejected sizes": (
        lambda q: q.view(64, -1) if q.shape[0] == 256 else q.view(-1, 7),
        ("N d",),
        BudgetError,
        "the function raised RuntimeError",
    ),
    "a class": (
        dict,
        ("N d",),
        BudgetError,
        "dict is a class; name a function, or an instance, such as one that its module makes:"
        " model = dict",
    ),
    "no function": (3, ("N d",), BudgetError, "expected a function and the shapes"),
}


@pytest.mark.parametrize(("program", "shapes", "error", "text"), SLIPS.values(), ids=SLIPS)
def test_slips_are_told_in_one_line(program, shapes, error, text):
    with pytest.raises(error) as raised:
        derive(program, *shapes, backward=text.endswith("gradient"))
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"backend": "cpu"},
            "derive runs simulated, not on 'cpu'; growth(fn, N=[…]) fits measurements of another"
            " backend",
        ),
        (
            {"sizes": {"M": [1, 2, 3, 4]}},
            "sizes are given for M, and no shape has that symbol; the shapes have B, H, N, d",
        ),
        (
            {"sizes": {"N": [64, 128]}},
            "derive needs 4 sizes of N or more, got 2: two determine a line, and 2 confirm it",
        ),
    ],
    ids=str,
)
def test_other_backends_and_odd_sizes_are_refused(options, text):
    with pytest.raises(BudgetError) as error:
        derive(naive, *QKV, **options)
    assert str(error.value) == text
