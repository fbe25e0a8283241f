"""Compiled code in comparisons; the graphs are made by Dynamo with the backend ``eager``."""

from functools import partial

import pytest
import torch

import pytest_attnmem as attnmem
from pytest_attnmem.api.compiled_functions import Compilations, warmup_of
from pytest_attnmem.errors import BudgetExceeded


def plain(x):
    return x + 1


@partial(torch.compile, backend="eager")
def wasteful(x):
    held = x * 2
    torch._dynamo.graph_break()
    return held + x * 3


X = torch.ones(1000)


def step():
    return wasteful(X)


def test_compiled_code_is_found_through_the_functions_that_call_it():
    inner = wasteful
    compiled = (wasteful, partial(wasteful, X), lambda: wasteful(X), step, lambda: step(), inner)
    assert [warmup_of(function, 0) for function in compiled] == [1] * 6
    assert [warmup_of(function, 0) for function in (plain, lambda: plain(X), print)] == [0] * 3
    assert warmup_of(step, 3) == 3


def test_a_failure_names_graphs_breaks_and_recompilations():
    torch._dynamo.reset()
    found = Compilations()
    assert found.text() == ""
    with pytest.raises(BudgetExceeded) as caught:
        attnmem.compare(lambda: wasteful(X), lambda: plain(X), backend="cpu")
    line = str(caught.value).splitlines()[0]
    assert line == (
        "compare: peak of new, 11.7 KiB, is 2.99x of base; allowed 3.9 KiB, 1x base 3.9 KiB on cpu;"
        " 2 graphs; graph break: Call to `torch._dynamo.graph_break()`"
    )


def test_a_recompilation_is_named_with_its_reason():
    torch._dynamo.reset()
    compiled = torch.compile(plain, backend="eager")
    compiled(X)
    found = Compilations()
    compiled(X.double())
    assert found.text() == (
        "1 graph; compiled again: plain: tensor 'x' dtype mismatch. expected Float, actual Double"
    )
