"""A contract varies a size whichever way the test reads it, or says that it cannot."""

import pytest

HEAD = """
import pytest, torch

pytestmark = [
    pytest.mark.memory_budget("O(N)"),
    pytest.mark.parametrize("N", [64]),
]
"""

IN_THE_BODY = """
def test_value(N, request):
    n = request.getfixturevalue("N")
    torch.ones(n, n)

def test_params(N, request):
    n = request.node.callspec.params["N"]
    torch.ones(n, n)

@pytest.fixture
def square(request):
    def make():
        n = request.getfixturevalue("N")
        return torch.ones(n, n)
    return make

def test_factory(N, square):
    square()

@pytest.fixture
def linear(request):
    params = request.node.callspec.params
    return lambda: torch.ones(params["N"])

@pytest.fixture
def quadratic(request):
    spec = request.node.callspec
    return lambda: torch.ones(spec.params["N"], spec.params["N"])

def test_within(N, linear):
    linear()

def test_over(N, quadratic):
    quadratic()

def test_as_before(N, request):
    assert (N, request.getfixturevalue("N")) == (N, request.node.callspec.params["N"])
    torch.ones(N)
"""


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
def test_a_size_that_the_body_reads_is_varied(suite, simulation_imported, backend):
    suite.write(HEAD + IN_THE_BODY)
    ran = suite.run(f"--attnmem-backend={backend}")
    assert ran.outcomes == {"failed": 4, "passed": 2}
    over = {row["nodeid"].partition("::")[2] for row in ran.rows if row["outcome"] == "over"}
    assert over == {f"test_{name}[64]" for name in ("value", "params", "factory", "over")}
    assert {row["reason"].partition(" on ")[0] for row in ran.rows if row["reason"]} == {
        "peak grows as 4*N^2"
    }


IN_A_FIXTURE = """
@pytest.fixture
def value(request):
    return request.getfixturevalue("N")

@pytest.fixture
def params(request):
    return request.node.callspec.params["N"]

@pytest.fixture
def copy(request):
    return dict(request.node.callspec.params)["N"]

@pytest.fixture
def get(request):
    yield request.node.callspec.params.get("N")

@pytest.fixture
def reader(request):
    return lambda: request.getfixturevalue("N")

@pytest.fixture
def called(reader):
    return reader()

@pytest.fixture
def declared(N):
    return N

def test_value(N, value): torch.ones(value, value)

def test_params(N, params): torch.ones(params, params)

def test_copy(N, copy): torch.ones(copy, copy)

def test_get(N, get): torch.ones(get, get)

def test_called(N, called): torch.ones(called, called)

def test_asked(N, request):
    n = request.getfixturevalue("declared")
    torch.ones(n, n)

@pytest.fixture
def other(request):
    return "M" in request.node.callspec.params

def test_other(N, other): torch.ones(N)
"""


def test_a_size_that_a_fixture_reads_is_not_varied_and_said_so(suite):
    suite.write(HEAD + IN_A_FIXTURE)
    ran = suite.run()
    assert ran.outcomes == {"failed": 6, "passed": 1}
    for name in ("value", "params", "copy", "get", "called", "asked"):
        fixture = {"asked": "declared"}.get(name, name)
        said = (
            f"contract O(N) varies N, which the fixture {fixture!r} takes too, and a fixture is"
            " made once; take it only in the test"
        )
        assert ran.outcome(f"test_{name}[64]") == f"not enforced: {said}"
        assert ran.short(f"test_{name}[64]") == (
            f"FAILED: Failed: memory_budget: {said}   test_suite.py:5"
        )
    assert ran.outcome("test_other[64]") == "within"
