"""With pytest-xdist, the controller reports the measurements of the workers like its own."""

import pytest

pytest.importorskip("xdist")

SUITE = """
import pytest
from scripted import memory

pytestmark = pytest.mark.memory_budget("2*lanes")

@pytest.mark.xdist_group("of @ one")
@pytest.mark.parametrize("N", [1, 2, 3])
def test_within(N): memory.use(N)

@pytest.mark.xdist_group("other")
def test_over(): memory.use(17)

@pytest.mark.memory_budget("64 MB")
def test_bad(): pass

@pytest.mark.memory_budget("B.real")
def test_worse(): pass

@pytest.mark.memory_budget(1, backend="absent")
def test_elsewhere(): pass

@pytest.mark.skip(reason="later")
def test_skipped(): pass

def test_region(attnmem):
    with attnmem.region("part"):
        memory.use(3)

@pytest.mark.xfail(strict=True)
def test_regression(): memory.use(18)
"""


def rows(ran):
    """All that one run has in common with another."""
    return [{**row, "duration_s": None} for row in ran.rows]


@pytest.mark.parametrize(
    "options",
    [("-n2",), pytest.param(("-n2", "--dist=loadgroup"), marks=pytest.mark.thorough)],
    ids=" ".join,
)
def test_the_same_rows_as_without(scripted, options):
    scripted.write(SUITE)
    alone = scripted.run("--attnmem-report")
    spread = scripted.run("--attnmem-report", *options)
    assert "INTERNALERROR" not in spread.text
    assert alone.outcomes == spread.outcomes
    assert alone.outcomes == {"passed": 4, "failed": 1, "errors": 3, "skipped": 1, "xfailed": 1}
    assert rows(alone) == rows(spread)
    assert alone.summary == spread.summary
    assert alone.line == spread.line

    def table(ran):
        lines = ran.result.outlines
        start = next(i for i, line in enumerate(lines) if "memory budgets" in line)
        return lines[start : lines.index(ran.line)]

    assert table(alone) == table(spread)
    assert spread.report("ERROR at setup of test_bad")[-1].startswith(
        "memory_budget: cannot parse size '64 MB'"
    )


@pytest.mark.thorough
def test_the_file_says_where_the_tests_ran_and_the_traces_are_as_without(suite):
    suite.tests("""
@pytest.mark.memory_budget("1 KiB", exact=True)
def test_within(): torch.ones(256)

@pytest.mark.memory_budget("1 KiB")
def test_over(): torch.ones(256) * torch.ones(256)
""")
    alone = suite.run("--attnmem-artifacts=alone")
    spread = suite.run("--attnmem-artifacts=spread", "-n1")
    assert spread.outcome("test_within") == "within"
    assert {**spread.environment, "date": ""} == {**alone.environment, "date": ""}
    assert spread.row("test_over")["timeline"] == alone.row("test_over")["timeline"]
    (trace,) = suite.path.joinpath("alone").iterdir()
    assert [path.name for path in suite.path.joinpath("spread").iterdir()] == [trace.name]
    assert suite.path.joinpath("spread", trace.name).read_bytes() == trace.read_bytes()


@pytest.mark.thorough
def test_the_worst_attempt_counts_under_xdist_and_strict_is_kept(scripted):
    pytest.importorskip("pytest_rerunfailures")
    ran = scripted.tests("""
attempts = []

@pytest.mark.memory_budget(100)
def test_flaky():
    attempts.append(1)
    memory.use(102 - len(attempts))

@pytest.mark.skip(reason="later")
@pytest.mark.memory_budget(100)
def test_skipped(): pass

@pytest.mark.memory_budget(100)
def test_within(): memory.use(100)
""").run("-n2", "--reruns=1", "--attnmem-strict=all", has_reruns=True)
    assert ran.outcomes == {"passed": 1, "failed": 1, "skipped": 1, "rerun": 1}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert [(row["nodeid"].partition("::")[2], row["outcome"]) for row in ran.rows] == [
        ("test_flaky", "over"),
        ("test_skipped", "not enforced"),
        ("test_within", "within"),
    ]
    assert "attnmem: 1 test was not enforced (--attnmem-strict all)" in ran.text


def test_a_bad_option_is_one_line_and_no_internal_error(suite):
    suite.write(SUITE)
    ran = suite.run("-n2", "--attnmem-default=64 MB")
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0].startswith("ERROR: --attnmem-default: cannot parse size '64 MB'")
