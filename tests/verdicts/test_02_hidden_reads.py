"""A contract varies a size whichever way the test or its fixtures read it."""

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
    ran = suite.tests(IN_THE_BODY).run(f"--attnmem-backend={backend}")
    assert ran.outcomes == {"failed": 4, "passed": 2}
    over = {row["nodeid"].partition("::")[2] for row in ran.rows if row["outcome"] == "over"}
    assert over == {f"test_{name}[64]" for name in ("value", "params", "factory", "over")}
    assert {row["reason"].partition(" on ")[0] for row in ran.rows if row["reason"]} == {
        "peak grows as 4*N^2"
    }


IN_A_FIXTURE = """
ended = []

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
    yield N
    ended.append(N)

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

def test_ended(N):
    assert ended[-1] == 64  # other runs leave nothing
    torch.ones(N)
"""


def test_a_size_that_a_fixture_reads_is_varied_and_the_fixture_made_anew(suite):
    ran = suite.tests(IN_A_FIXTURE).run("-pno:randomly")
    assert ran.outcomes == {"failed": 6, "passed": 2}
    for name in ("value", "params", "copy", "get", "called", "asked"):
        assert ran.outcome(f"test_{name}[64]") == (
            "over: peak grows as 4*N^2 on cpu; the contract is O(N)"
        )
    assert ran.outcome("test_other[64]") == "within"


def test_a_fixture_that_does_not_take_other_sizes_is_named(suite):
    suite.tests("""
@pytest.fixture
def fussy(N):
    if N != 64:
        raise ValueError("too small")
    return N

def test_it(N, fussy): torch.ones(N)
""")
    said = "memory_budget: the fixture 'fussy' raised ValueError: too small   test_suite.py:5"
    assert suite.run().short("test_it[64]") == f"FAILED: Failed: {said}"
