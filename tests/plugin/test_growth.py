"""Growth contracts on tests: ``memory_budget("O(N*d)")``."""

import pytest

HEAD = """
import pytest
import torch
from pytest_attnmem.kernels import flash, standard
"""


def test_contracts_are_kept_and_broken(suite):
    suite.write(f"""{HEAD}
@pytest.mark.memory_budget("O(N*d)")
@pytest.mark.parametrize(("N", "d"), [(1024, 64)])
def test_tiles(qkv, N, d):
    flash.attention(*qkv(1, 2, N, d))

@pytest.mark.memory_budget("O(N*d)")
@pytest.mark.parametrize("N", [1024])
def test_fused(qkv, N):
    torch.nn.functional.scaled_dot_product_attention(*qkv(1, 2, N, 64))

@pytest.mark.memory_budget("O(N^2)")
@pytest.mark.parametrize("seq_len", [512])
def test_scores(qkv, seq_len):
    standard.attention(*qkv(1, 2, seq_len, 64))

@pytest.mark.memory_budget("O(N)", metric="retained")
@pytest.mark.parametrize("N", [512])
def test_retained(qkv, N, kept):
    kept.append(torch.ones(N))

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [512])
def test_two(N):
    x = torch.ones(N)
    x[:, None] * x

@pytest.fixture(scope="module")
def kept():
    return []
""")
    ran = suite.run("--attnmem-report")
    outcomes = {row["nodeid"].partition("::")[2]: row["outcome"] for row in ran.rows}
    assert outcomes == {
        "test_tiles[1024-64]": "within",
        "test_fused[1024]": "within",
        "test_scores[512]": "within",
        "test_retained[512]": "within",
        "test_two[512]": "over",
    }
    assert ran.report("test_two[512]") == [
        "peak grows as 4*N^2 + 4*N on cpu; the contract is O(N)",
        "  contract  O(N)   test_suite.py:26",
        "  N=64   16.3 KiB",
        "  N=128   64.5 KiB",
        "  N=192   144.8 KiB",
        "  N=256   257.0 KiB",
        "  N=512   1.0 MiB",
        "  held at the peak (2 tensors):",
        "    1.0 MiB  [512, 512] float32  mul   test_suite.py:30  in test_two  ← N·N",
        "    2.0 KiB  [512] float32       ones  test_suite.py:29  in test_two  ← N",
        "  attnmem explain scores",
    ]
    (row,) = (row for row in ran.rows if row["outcome"] == "over")
    assert (row["budget"], row["limit_bytes"]) == ("O(N)", None)
    assert any(
        line.split()[-4:] == ["O(N)", "1.0", "MiB", "over"] for line in ran.text.splitlines()
    )


NO_ARGUMENT = (
    "contract O(N*d) needs an argument of the test to vary: N or d; write"
    " @pytest.mark.parametrize('N', [2048]) and take N"
)
REFUSED = {
    "no argument": ("@marked\ndef test_it(qkv): qkv(1, 1, 8, 8)", NO_ARGUMENT),
    "unittest": (
        "class TestIt(TestCase):\n    @marked\n    def test_it(self): pass",
        "contract O(N*d) varies an argument, and a method of a"
        " unittest.TestCase takes none; write a function, or use attnmem.growth",
    ),
    "a fixture's": (
        "@marked\n@sizes('N', [64], scope='module')\ndef test_it(x, N): torch.ones(N)",
        "contract O(N*d) varies N, which the fixture 'x' takes too, and its scope is not the test;"
        " take it only in the test",
    ),
    "a slip in fixed": (
        "@pytest.mark.memory_budget('O(N)', fixed='step')\n@sizes(('N', 'steps'), [(64, 2)])\n"
        "def test_it(N, steps): pass",
        "fixed='step' is not an argument of the test, which takes N, steps; did you mean 'steps'?",
    ),
    "no size": (
        "@marked\n@sizes('N', ['64'])\ndef test_it(N): torch.ones(4)",
        "N='64' is not a size to vary",
    ),
    "rejected sizes": (
        "@marked\n@sizes('N', [1024])\ndef test_it(N): torch.ones(N).view(1024)",
        "the test raised RuntimeError: shape '[1024]' is invalid for input of size 128 at N=128,"
        " where its growth is measured; let it take other sizes",
    ),
}


@pytest.mark.parametrize(("test", "message"), REFUSED.values(), ids=REFUSED)
def test_a_contract_that_cannot_be_told_fails_in_one_line(suite, test, message):
    suite.write(f"""{HEAD}
from unittest import TestCase
marked, sizes = pytest.mark.memory_budget("O(N*d)"), pytest.mark.parametrize

@pytest.fixture(scope="module")
def x(N): return torch.ones(N)

{test}
""")
    ran = suite.run()
    (row,) = ran.rows
    assert row["outcome"] == "not enforced"
    assert f"memory_budget: {message}   test_suite.py:" in ran.text


def test_a_body_that_fails_at_another_size_leaves_no_trace(suite):
    suite.write(f"""{HEAD}
sizes = []

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [1024])
def test_it(N, attnmem, capsys):
    sizes.append(N)
    with open("sizes.txt", "a") as file:
        print(N, file=file)
    with attnmem.region("part", "1 MiB"):
        torch.ones(N)

def test_sizes():
    assert sizes == [1024]
""")
    ran = suite.run()
    assert ran.outcomes == {"passed": 2}
    sizes = [int(size) for size in (suite.path / "sizes.txt").read_text().split()]
    smaller = [128, 256, 384, 512]
    assert sizes == [1024, *smaller, *smaller, 1025]  # measured, then under a tracker
    outcomes = {row["region"]: row["outcome"] for row in ran.rows}
    assert outcomes == {"part": "within", "": "within"}


@pytest.mark.parametrize("contract", ["O(N)", "4 KiB + O(N)"])
def test_regions_checks_and_defaults_take_no_contract(suite, contract):
    suite.tests(f"""
def test_region(attnmem):
    with attnmem.region("part", "{contract}"): pass

def test_check(attnmem):
    attnmem.check(attnmem.measure(lambda: torch.ones(4)), "{contract}")
""")
    ran = suite.run()
    use = f"mark the test with {contract!r}, or use attnmem.growth"
    assert ran.short("test_region").endswith(f"a region takes no growth contract: {use}")
    assert ran.short("test_check").endswith(f"a check takes no growth contract: {use}")
    default = suite.run(f"--attnmem-default={contract}", json_file=None)
    assert default.result.ret == pytest.ExitCode.USAGE_ERROR
    assert default.result.errlines[0] == (
        "ERROR: --attnmem-default: a growth contract is for tests that take what it varies; mark"
        f" them with {contract!r}"
    )


def test_growth_measures_a_function_at_each_size(suite):
    suite.write(f"""{HEAD}
from pytest_attnmem import growth

def scores(N, d):
    q = torch.ones(N, d)
    return q @ q.T

def test_it(attnmem):
    grown = attnmem.growth(scores, N=[256, 128, 512, 384, 640], d=[16, 32, 48, 64])
    assert str(grown.formula) == "4*N^2 + 4*N*d"
    assert grown.degree("N") == 2 and grown.degree("d") == 1
    grown.assert_within("O(N^2 + N*d)")

def test_over(attnmem):
    attnmem.growth(scores, N=[256, 128, 512, 384, 640], d=[16, 32, 48, 64]).assert_within("O(N*d)")

def test_alone():
    assert growth(lambda N: torch.ones(N), N=range(64, 512, 64), backend="cpu").degree("N") == 1

@pytest.mark.parametrize("arguments", [dict(), dict(N=[1, 2]), dict(N=[4, 5, 6, 7], metric="x")])
def test_slips(attnmem, arguments):
    attnmem.growth(scores, **arguments)

def test_rejected(attnmem):
    attnmem.growth(lambda N: torch.ones(N).view(64), N=[64, 128, 192, 256])
""")
    ran = suite.run(json_file=None)
    assert ran.outcomes == {"passed": 2, "failed": 5}
    lines = [line.removeprefix("E").strip() for line in ran.report("test_over")]
    reason = "growth: peak grows as 4*N^2 + 4*N*d on cpu; the contract is O(N*d)"
    start = next(at for at, line in enumerate(lines) if line.endswith(reason))
    assert lines[start + 1] == "contract  O(N*d)   test_suite.py:19"
    assert lines[start + 2] == "N=128 d=16   72.0 KiB"
    held = lines.index("held at the peak (2 tensors):")
    assert "[640, 640] float32" in lines[held + 1]
    assert "BudgetError: growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])" in (
        ran.text
    )
    assert "BudgetError: growth needs 4 sizes of N or more, got 2: two determine a line" in ran.text
    assert "unknown metric 'x'; expected one of peak, allocated, reserved, retained" in ran.text
    assert "growth: the function raised RuntimeError: shape '[64]' is invalid for input" in ran.text
