"""A run at another size counts only if the body comes to its end there."""

import pytest


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
def test_a_subtest_that_fails_at_another_size_tells_nothing(short):
    ran = short.tests("""
@budget("O(N)")
@sizes("N", [512])
def test_it(subtests, N):
    with subtests.test("square"):
        assert N == 512
        torch.empty(N, N)
""").run("--attnmem-backend=simulated:H100")
    row = ran.row("test_it[512]")
    assert row["outcome"] == "not enforced"
    assert row["reason"].startswith("the test raised AssertionError: assert 64 == 512")


def test_a_larger_size_that_does_not_fit_is_left_out(short):
    short.tests("""
@budget("O(N)")
@sizes(("B", "N"), [(1, 64)])
def test_it(B, N):
    torch.empty(N, 1 if B == 1 else 1 << 45)
""")
    outcome = short.run().outcome("test_it[1-64]")
    assert outcome.startswith("not enforced: B was not varied: the test raised RuntimeError: ")


def test_a_contract_takes_no_exact_and_no_tolerance(short):
    ran = short.tests("""
@sizes("N", [64])
@budget("O(N)", exact=True)
def test_exact(N):
    torch.empty(N)

@sizes("N", [64])
@budget("O(N)", tolerance="5%")
def test_tolerance(N):
    torch.empty(N)
""").run()
    text = (
        "memory_budget: contract O(N) takes no exact and no tolerance: it bounds the growth"
        " of memory, not its amount   test_suite.py:{}"
    )
    assert ran.outcome("test_exact[64]") == f"not enforced: {text.format(5)}"
    assert ran.outcome("test_tolerance[64]") == f"not enforced: {text.format(10)}"
