"""A contract varies every symbol that is an argument of the test, named or not."""

import pytest


def test_a_symbol_without_a_name_must_not_matter(short, backend):
    ran = short.tests("""
@budget("O(N)")
@sizes(("B", "N"), [(8, 64)])
def test_cube(qkv, B, N):
    torch.empty(B * B * B, N)

@budget("O(B*N)")
@sizes(("B", "N"), [(8, 64)])
def test_named(qkv, B, N):
    torch.empty(B, N)

@budget("O(N)")
@sizes(("batch_size", "N"), [(8, 64)])
def test_by_another_name(batch_size, N):
    torch.empty(batch_size, N)

@budget("O(N)")
@sizes(("B", "N"), [(8, 64), (1, 64)])
def test_unused(B, N):
    torch.empty(64, N)
""").run(f"--attnmem-backend={backend}")
    over = f"on {backend}; the contract is O(N)"
    cube = "no polynomial fits, and peak grows with B"
    if backend != "cpu":  # larger sizes cost nothing there, and show the form
        cube = "peak grows as 256*B^3"
    assert ran.outcome("test_cube[8-64]") == f"over: {cube} {over}"
    assert ran.outcome("test_named[8-64]") == "within"
    assert ran.outcome("test_by_another_name[8-64]") == f"over: peak grows as 256*B {over}"
    for test in ("test_unused[8-64]", "test_unused[1-64]"):
        assert ran.outcome(test) == "within: does not grow with B"


def test_o_of_1_is_what_must_not_grow(short, backend):
    ran = short.tests("""
kept = []

@budget("O(1)", metric="retained")
@sizes("N", [64])
def test_leak(N):
    kept.append(torch.empty(N))

@budget("O(1)", metric="retained")
@sizes("N", [64])
def test_nothing(N):
    torch.empty(N)

@budget("O(1)")
@sizes("N", [64])
def test_constant(N):
    torch.empty(64)
""").run(f"--attnmem-backend={backend}")
    assert ran.outcome("test_leak[64]", metric="retained") == (
        f"over: retained grows as 4*N on {backend}; the contract is O(1)"
    )
    same = "within: does not grow with N"
    assert ran.outcome("test_nothing[64]", metric="retained") == same
    assert ran.outcome("test_constant[64]") == same


def test_a_sum_does_not_allow_the_product(short, backend):
    ran = short.tests("""
@budget("O(N + d)")
@sizes(("N", "d"), [(64, 16)])
def test_product(N, d):
    torch.empty(N, d)

@budget("O(N + d)")
@sizes(("N", "d"), [(64, 16)])
def test_sum(N, d):
    torch.empty(N), torch.empty(d)

@budget("O(N*d)")
@sizes(("N", "d"), [(64, 16)])
def test_allowed(N, d):
    torch.empty(N, d)
""").run(f"--attnmem-backend={backend}")
    assert ran.outcome("test_product[64-16]") == (
        f"over: peak grows as 4*N*d on {backend}; the contract is O(N + d)"
    )
    assert ran.outcome("test_sum[64-16]") == ran.outcome("test_allowed[64-16]") == "within"


def test_a_symbol_that_cannot_be_varied_is_told(short):
    ran = short.tests("""
@pytest.fixture(scope="module")
def weights(d):
    return torch.ones(d, d)

@budget("O(N*d)")
@sizes(("N", "d"), [(64, 16)], scope="module")
def test_fixture(weights, N, d):
    torch.empty(N, d)

@pytest.fixture
def layer(width):
    return torch.ones(width, width)

@budget("O(N)")
@sizes(("N", "width"), [(64, 16)])
def test_made_anew(layer, N):
    torch.empty(N, len(layer))

@budget("O(N)")
@sizes(("H", "N"), [(7, 64)])
def test_rejected(H, N):
    assert H == 7
    torch.empty(N)

@budget("O(N)")
@sizes(("M", "N"), [(None, 64)])
def test_no_size(M, N):
    torch.empty(N)
""").run()
    assert ran.outcome("test_fixture[64-16]") == (
        "not enforced: d was not varied: the fixture 'weights' takes it, and its scope is not the"
        " test"
    )
    assert ran.outcome("test_made_anew[64-16]") == (
        "over: peak grows as 256*width on cpu; the contract is O(N)"
    )
    assert ran.outcome("test_rejected[7-64]") == (
        "not enforced: H was not varied: the test raised AssertionError: assert 14 == 7 at H=14,"
        " where its growth is measured; let it take other sizes, or leave it out: fixed='H'"
    )
    assert ran.outcome("test_no_size[None-64]") == "within"


def test_any_whole_number_is_varied_and_costs_two_runs_if_it_changes_nothing(short):
    ran = short.tests("""
from enum import IntEnum
runs = []

class Mode(IntEnum):
    FAST = 3

@pytest.fixture(params=[4])
def window(request):
    return request.param

@budget("O(window)")
@sizes(("steps", "seed"), [(8, 12)])
def test_kept(steps, window, seed):
    x = [torch.empty(1024) for _ in range(steps)]

@budget("O(window)", fixed=("steps", "seed"))
@sizes(("steps", "seed"), [(8, 12)])
def test_fixed(steps, window, seed):
    x = [torch.empty(1024) for _ in range(steps)]

@budget("8*layers*n + O(n)")
@sizes(("layers", "n"), [(8, 64)])
def test_formula(layers, n):
    x = torch.stack([torch.empty(n) for _ in range(layers)])

@budget("4*layers*n + O(n)")
@sizes(("layers", "n"), [(8, 64)])
def test_copy(layers, n):
    x = torch.stack([torch.empty(n) for _ in range(layers)])

@budget("O(N)")
@sizes(("N", "seed", "mode", "flag", "name", "offset"), [(64, 12, Mode.FAST, True, "8", 0)])
def test_nothing(N, seed, mode, flag, name, offset):
    runs.append((seed, mode, flag, name, offset))
    torch.empty(N)

def test_runs():
    assert {run[1:] for run in runs} == {(Mode.FAST, True, "8", 0)}
    seeds = [run[0] for run in runs]
    assert {*seeds} == {12}  # other runs leave nothing
""").run("-pno:randomly")
    ends = {row["nodeid"].partition("::")[2]: row["reason"] for row in ran.rows}
    assert ends == {
        "test_kept[4-8-12]": "peak grows as 4096*steps on cpu; the contract is O(window)",
        "test_fixed[4-8-12]": "the peak does not depend on window from 2 to 16",
        "test_formula[8-64]": "does not grow with layers; peak is within the formula",
        "test_copy[8-64]": (
            "peak over the formula grows as 256*layers on cpu; the budget is 4*layers*n + O(n)"
        ),
        "test_nothing[64-12-3-True-8-0]": "does not grow with seed",
    }
    assert ran.outcomes == {"passed": 4, "failed": 2}


def test_sizes_are_varied_together_and_in_multiples_as_far_as_they_go(short):
    ran = short.tests("""
@budget("O(1)")  # each alone stands still: a window keeps no more than there are steps
@sizes(("steps", "window"), [(8, 8)])
def test_together(steps, window):
    torch.empty(min(steps, window), 64)

@budget("O(H*N + Hkv*N)")
@sizes(("H", "Hkv", "N"), [(4, 2, 64)])
def test_grouped(H, Hkv, N):
    assert H % Hkv == 0
    torch.empty(H, N), torch.empty(Hkv, N)
""").run()
    assert ran.outcome("test_together[8-8]") == (
        "over: peak grows too fast where steps and window grow together: 2.0 KiB at 1 times the"
        " sizes, 4.0 KiB at 2 times the sizes, 6.0 KiB at 3 times the sizes, 8.0 KiB at 4 times the"
        " sizes on cpu; the contract is O(1)"
    )
    assert ran.outcome("test_grouped[4-2-64]").startswith(
        "not enforced: Hkv was not varied: the test raised AssertionError"
    )


@pytest.mark.parametrize(
    ("contract", "argument", "meant"), [("O(n)", "N", "N"), ("O(Hvk)", "Hkv", "Hkv")]
)
def test_a_slip_in_a_name_is_told(short, contract, argument, meant):
    short.tests(f"""
@budget({contract!r})
@sizes({argument!r}, [64])
def test_it({argument}):
    torch.empty({argument})
""")
    symbol = contract[2:-1]
    assert short.run().outcome("test_it[64]") == (
        f"not enforced: memory_budget: contract {contract} varies {symbol}, and the test takes"
        f" {meant}; did you mean {meant}?   test_suite.py:5"
    )
