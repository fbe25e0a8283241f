"""Closed forms of models: steps of their own, layers as a symbol, and sizes that are refused."""

import json
import random

import pytest
import torch
from torch import nn

from pytest_attnmem import BudgetError, FormulaError, derive
from pytest_attnmem.backends.simulated.session.derive_program import program
from pytest_attnmem.cli import main
from pytest_attnmem.closed_forms.live_sets import peak
from pytest_attnmem.symbols.argument_shapes import parse_shapes


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def step(tokens, *, layers=2, width=16):
    """Two steps of training, as a program that needs no ``backward``; it returns nothing."""
    with torch.device("cuda"):
        model = nn.Sequential(nn.Embedding(64, width), *(Block(width) for _ in range(layers)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(tokens).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def needed(fn, sizes, *numbers):
    arguments = parse_shapes(("int64: B N",))
    options = {"dtype": "float32", "backward": False, "profile": "", "numbers": numbers}
    with program(fn, arguments, **options) as run:
        return peak(run(sizes))


@pytest.fixture(scope="module")
def found():
    return derive(step, "int64: B N", layers=(1, 2, 3))


@pytest.mark.thorough
def test_layers_are_a_symbol_in_which_the_peak_is_linear(found):
    assert (found.how, found.degree("layers"), found.degree("N")) == ("derived", 1, 1)
    weights = 4 * 64 * 16, 4 * (2 * 16 * 64 + 64 + 3 * 16)
    *_, optimizer = found.candidates  # states, gradients and one temporary of each parameter
    assert str(optimizer.polynomial) == f"{5 * weights[1]}*layers + {5 * weights[0]}"
    assert optimizer.region.startswith("for N <= ")
    first = found.candidates[0].terms[0]
    assert first.text.endswith("*B*N*layers")
    counts = {(holder.op, holder.shape): holder.count for holder in first.held}
    assert counts["addmm", "[B*N, 64]"] == counts["gelu", "[B, N, 64]"] == "layers"


def test_at_other_layers_and_sizes_the_form_is_what_a_run_needs(found):
    draw = random.Random(0)
    for _ in range(5):
        sizes = {"B": draw.randint(1, 5), "N": draw.randint(1, 300), "layers": draw.randint(1, 6)}
        assert found.evaluate(sizes) == needed(step, sizes, "layers")


def linear(tokens, *, layers):
    return torch.stack([tokens + 1 for _ in range(layers)])


def quadratic(tokens, *, layers):
    kept = [torch.ones_like(tokens) for _ in range(layers * layers)]
    return torch.stack(kept)


def test_what_is_not_linear_is_refused_in_one_line():
    with pytest.raises(BudgetError) as error:
        derive(quadratic, "int64: B N", layers=(1, 2, 3))
    assert str(error.value) == (
        "the peak is not linear in layers at layers=1, 2, 3: 16*B*N at layers=1 is on no line; give"
        " layers as a number"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layers": (1, 2)}, "derive has no option layers=(1, 2); a number that changes the"),
        ({"layer": 3}, "derive has no option layer=3; a number that changes the function needs"),
        ({"N": (1, 2, 3)}, "N is a symbol of a shape; give the number another name"),
    ],
)
def test_numbers_that_cannot_be_read_are_one_line(options, text):
    with pytest.raises(BudgetError) as error:
        derive(step, "int64: B N", **options)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_a_size_of_one_that_takes_another_way_is_refused():
    layer = nn.MultiheadAttention(32, 4, batch_first=True)
    found = derive(lambda x: layer(x, x, x)[0], "B N 32", backward=True)
    assert found.least == {"B": 2, "N": 2}
    with pytest.raises(FormulaError) as error:
        found.evaluate(B=1, N=256)
    assert str(error.value).endswith(
        "holds for B >= 2, not for B=1, where the program takes another way; write B as a number to"
        " derive that"
    )
    alone = derive(lambda x: layer(x, x, x)[0], "1 N 32", backward=True)
    assert alone.evaluate(N=256) < found.evaluate(B=2, N=256)
    assert "B" not in alone.symbols


def padded(q):
    return nn.functional.scaled_dot_product_attention(q, q, q)


def test_a_length_that_kernels_pad_is_refused_or_derived():
    found = derive(padded, "B 2 N 16", backward=True)
    assert found.steps == {"N": 32}
    with pytest.raises(
        FormulaError, match=r"holds for multiples of 32 of N, not for N=700; derive"
    ):
        found.evaluate(B=2, N=700)
    odd = derive(
        padded, "B 2 N 16", backward=True, sizes={"N": [100, 130, 257, 391, 500, 645, 777]}
    )
    assert "ceil(N/32)" in str(odd)
    assert odd.steps == {}
    assert odd.evaluate(B=2, N=704) == found.evaluate(B=2, N=704)


def test_the_command_takes_numbers(capsys, monkeypatch, request):
    monkeypatch.syspath_prepend(request.path.parent)
    arguments = ["derive", f"{request.path.stem}:linear", "int64: B N", "--number", "layers=1,2,3"]
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["formula"] == "16*B*N*layers"
    assert (data["least"], data["steps"]) == ({}, {})
    assert main([*arguments[:-1], "layers"]) == 2
    assert "cannot read --number 'layers'; write --number layers=1,2,3" in capsys.readouterr().err


def branching(way):
    def function(x):
        scores = x @ x.transpose(-1, -2)
        if way(x.shape):
            scores = torch.stack([scores, scores])
        return scores.softmax(-1)

    return function


@pytest.mark.parametrize(
    ("way", "bound", "wrong"),
    [
        (lambda shape: shape[1] > 5000, {"most": {"N": 4992}}, "<= 4992, not for N=5120,"),
        (lambda shape: shape[1] < 100, {"least": {"N": 100}}, ">= 100, not for N=96,"),
        (lambda shape: shape[0] * shape[1] > 30000, {"most": {"B": 6, "N": 768}}, ""),
        (
            lambda shape: shape[0] > 40 and shape[1] > 4000,
            {"most": {"B": 6, "N": 768}},
            "<= 768, not for N=800,",
        ),
    ],
    ids=["large", "small", "a product", "both"],
)
def test_a_size_from_which_on_the_program_takes_another_way_is_refused(way, bound, wrong):
    found = derive(branching(way), "B N 16")
    assert {"least": found.least, "most": found.most} == {"least": {}, "most": {}} | bound
    if wrong:
        with pytest.raises(FormulaError) as error:
            found.evaluate(B=2, N=int(wrong.rpartition("=")[2][:-1]))
        assert f" holds for N {wrong} where the program takes another way; write N" in str(
            error.value
        )


def test_a_size_that_the_program_does_not_take_bounds_nothing():
    table = torch.nn.Embedding(1000, 16)
    found = derive(lambda x: x + table.weight[: x.shape[1]], "B N 16")
    assert (found.least, found.most) == ({}, {})
