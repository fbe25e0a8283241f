"""Compiled code held to eager code by a marker; the graphs are made with the backend ``eager``."""

HEAD = """
import pytest
import torch

X = torch.ones(1000)

@torch.compile(backend="eager")
def wasteful(x):
    if torch.compiler.is_compiling():
        held = x * 2
        torch._dynamo.graph_break()
        return held + x * 3
    return x + 1

@torch.compile(backend="eager")
def same(x):
    return x + 1
"""

TESTS = """
@pytest.mark.memory_budget(compiled="<=eager")
def test_first():
    wasteful(X)

@pytest.mark.memory_budget("1 KiB")
def test_traced():
    wasteful(X)

@pytest.mark.memory_budget(compiled="<=eager")
def test_over():
    wasteful(X)

@pytest.mark.memory_budget("1 MiB", compiled="<=eager")
def test_limit_kept():
    wasteful(X)

@pytest.mark.memory_budget("1 KiB", compiled="<=eager")
def test_limit_broken():
    same(X)

@pytest.mark.memory_budget("1 MiB", compiled="<=eager")
@pytest.mark.memory_budget(metric="retained", compiled="<=eager")
def test_within():
    same(X)

@pytest.mark.memory_budget(compiled="<=eager")
def test_plain():
    X + 1

@pytest.mark.memory_budget(compiled="<=eager")
def test_only_compiled():
    assert (wasteful(X) > 4).all()

@pytest.mark.memory_budget(compiled="<= eager")
def test_wrong():
    same(X)
"""


def test_compiled_code_may_need_no_more_than_eager_code(suite):
    suite.write(HEAD + TESTS)
    ran = suite.run("--attnmem-report")
    rows = {(row["nodeid"].partition("::")[2], row["metric"]): row for row in ran.rows}
    assert {key: row["outcome"] for key, row in rows.items()} == {
        ("test_first", "peak"): "over",
        ("test_traced", "peak"): "over",
        ("test_over", "peak"): "over",
        ("test_limit_kept", "peak"): "over",
        ("test_limit_broken", "peak"): "over",
        ("test_within", "peak"): "within",
        ("test_within", "retained"): "within",
        ("test_plain", "peak"): "not enforced",
        ("test_only_compiled", "peak"): "not enforced",
        ("test_wrong", "peak"): "not enforced",
    }
    graphs = "on cpu; 2 graphs; graph break: Call to `torch._dynamo.graph_break()`"
    assert ran.report("test_first")[0].endswith(graphs)  # which the test compiled
    over = rows["test_over", "peak"]
    assert (over["peak_bytes"], over["limit_bytes"]) == (12000, 4012)  # and scalars
    assert rows["test_limit_kept", "peak"]["limit_bytes"] == 4012
    assert rows["test_limit_broken", "peak"]["limit_bytes"] == 1024
    assert ran.report("test_over") == [
        "peak of compiled code, 11.7 KiB, is 2.99x of eager code; allowed 3.9 KiB, 1x eager code"
        " 3.9 KiB on cpu",
        "  budget    1x eager code 3.9 KiB   test_suite.py:27",
        "  held tensors are unknown: compiled code runs eagerly under a tracker",
        "  attnmem explain parts",
    ]
    reasons = {test: row["reason"] for (test, _), row in rows.items()}
    assert reasons["test_plain"] == (
        "compiled='<=eager': the test calls no compiled code, so nothing is compared; call"
        " torch.compile(f)"
    )
    assert reasons["test_only_compiled"].startswith(
        "compiled='<=eager': the eager code did not run: the second run raised AssertionError"
    )
    assert reasons["test_wrong"] == (
        "memory_budget: compiled='<= eager' is not a bound; write compiled='<=eager'"
        "   test_suite.py:52"
    )
