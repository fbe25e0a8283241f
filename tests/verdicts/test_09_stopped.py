"""A budget whose test stops the session, or leaves the process, ends as one of three too."""

import pytest

STOPS = {
    "exit": ('pytest.exit("done", 0)', "done"),
    "exit with a code": (r'pytest.exit("two\nlines", 3)', "two lines"),
}
ENDING = """
import sys

@pytest.mark.memory_budget(100)
def test_it():
    memory.use({used})
    {end}
"""


@pytest.mark.parametrize(("stop", "why"), STOPS.values(), ids=STOPS)
def test_a_body_that_stops_the_session_is_not_enforced(scripted, stop, why):
    ran = scripted.tests(f"""
@pytest.mark.memory_budget(100)
def test_before(): memory.use(100)

@pytest.mark.memory_budget(100)
def test_it():
    memory.use(100)
    {stop}

@pytest.mark.memory_budget(100)
def test_after(): memory.use(100)
""").run()
    assert ran.outcome("test_before") == "within"
    assert ran.outcome("test_it") == f"not enforced: the session was stopped: {why}"
    assert len(ran.rows) == 2
    if "3" not in stop:  # pytest prints no summary for a code of one's own
        assert ran.line == (
            "attnmem: 2 budgets, 1 within, 0 over, 1 not enforced (--attnmem-report for the table)"
        )
        assert f"  1 not enforced: the session was stopped: {why}" in ran.result.outlines


@pytest.mark.parametrize("used", [100, 101])
def test_exit_code_0_is_not_green_where_the_body_is_over_by_then(scripted, used):
    ran = scripted.tests(ENDING.format(used=used, end='pytest.exit("done", 0)')).run()
    (row,) = ran.rows
    if used == 101:
        assert row["outcome"] == "over"
        assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
        assert (
            "attnmem: 1 test was over a budget and did not fail: test_suite.py::test_it"
            in ran.result.outlines
        )
    else:
        assert row["outcome"] == "not enforced"
        assert ran.result.ret == pytest.ExitCode.OK
        assert scripted.run("--attnmem-strict=all").result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("phase", ["setup", "teardown"])
def test_a_fixture_that_stops_the_session(scripted, phase):
    lines = ['pytest.exit("done")', "yield"]
    body = "; ".join(lines if phase == "setup" else reversed(lines))
    ran = scripted.tests(f"""
@pytest.fixture
def stopping(): {body}

@pytest.mark.memory_budget(100)
def test_it(stopping): memory.use(100)
""").run()
    stopped = "not enforced: the session was stopped: done"
    assert ran.outcome("test_it") == ("within" if phase == "teardown" else stopped)


@pytest.mark.thorough
def test_a_worker_that_stops_sends_its_row(scripted):
    pytest.importorskip("xdist")
    ran = scripted.tests(ENDING.format(used=101, end='pytest.exit("done", 0)')).run("-n1")
    assert ran.result.ret != pytest.ExitCode.OK
    assert ran.outcome("test_it").startswith("over: ")


@pytest.mark.parametrize(
    ("used", "outcome"), [(100, "not enforced: the test failed: SystemExit"), (101, "over: ")]
)
def test_a_body_that_leaves_the_process_fails_and_has_a_row(scripted, used, outcome):
    ran = scripted.tests(ENDING.format(used=used, end="sys.exit(0)")).run()
    assert ran.outcomes == {"failed": 1}
    assert ran.short("test_it") == "FAILED: SystemExit: 0"
    assert ran.outcome("test_it").startswith(outcome)


GENERATOR = """
def parts(attnmem):
    with attnmem.region("part", 100):
        memory.use(101)
        yield

kept = []

def test_it(attnmem):
    kept.append(parts(attnmem))
    next(kept[0])

@pytest.mark.memory_budget(100, exact=True)
def test_next(): memory.use(100)

def test_closed(attnmem):
    generator = parts(attnmem)
    next(generator)
    generator.close()
"""


def test_a_region_in_a_generator_that_nobody_ends_has_a_row(scripted):
    ran = scripted.tests(GENERATOR).run()
    assert ran.outcomes == {"passed": 1, "failed": 2}
    assert ran.outcome("test_it", "part") == "not enforced: the test ended inside the region"
    assert ran.outcome("test_next") == "within"
    assert ran.short("test_closed").startswith("FAILED: BudgetExceeded: part: peak 101 B exceeds")
    assert ran.short("test_it") == (
        "FAILED: Failed: part: not enforced: the test ended inside the region"
    )


@pytest.mark.thorough
def test_a_generator_that_the_interpreter_ends_prints_nothing(suite):
    suite.tests("""
def parts(attnmem):
    with attnmem.region("part", 100):
        torch.ones(4)
        yield

kept = []

def test_it(attnmem):
    kept.append(parts(attnmem))
    next(kept[0])
""")
    ran = suite.pytester.runpytest_subprocess(
        *("-pno:cacheprovider", "-pno:asyncio", "-pno:anyio", "-pno:hypothesispytest"),
        "--attnmem-backend=simulated:H100",
    )
    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    assert ran.stderr.str() == ""
