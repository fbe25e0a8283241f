"""The formulas of cells: each is the bytes of the table, at sizes that no fit has seen."""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.models.cell_terms import cell_terms
from pytest_attnmem.models.model_memory import ModelRun, recipe_of
from pytest_attnmem.models.table import render, table_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))
gpt = import_module("gpt")

SIZES = {"vocab_size": 1009, "n_layer": 2, "n_head": 2, "n_embd": 64}
STEP = {"train": "adamw", "sdpa": "math"}


@pytest.mark.thorough
def test_formulas_hold_for_models_that_no_fit_has_seen():
    build = partial(gpt.build, positions=4096, **SIZES)
    primed = open_primed("simulated")
    run = ModelRun(build, recipe_of([], {"B": 8, "N": 300, **STEP}), primed)
    found = run.memory()
    formulas = cell_terms(run, found)
    # Two tensors of the MLP, before GELU and after it, four times as wide as the model.
    assert formulas["blocks.*.mlp", "saved for backward"] == "32*B*N*layers*hidden"
    assert formulas["head", "logits and loss"] == "4*B*N*vocab"
    # LayerNorm's output, and mean and deviation of each token.
    assert formulas["blocks.*.norm1", "saved for backward"] == "4*B*N*layers*hidden + 8*B*N*layers"
    wider = partial(gpt.build, positions=4096, **{**SIZES, "n_layer": 4, "n_embd": 96})
    other = ModelRun(wider, recipe_of([], {"B": 5, "N": 411, **STEP}), primed).memory()
    table = table_of(other.parts)
    for (module, term), text in formulas.items():
        if {"layers", "hidden", "vocab"} & {*parse_formula(text).symbols}:
            assert parse_formula(text).evaluate(other.sizes) == table[module][term], module
    lines = render(found, 0, (), formulas)
    assert "terms that runs at other sizes prove:" in lines
    assert "terms: no cell has a formula that other sizes prove" in render(found, 0, (), {})
