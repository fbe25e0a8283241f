"""Tests are judged by the bytes of their baseline entries."""

import sys

import pytest

from .baselines import entry, everywhere, needing, states, write_baseline


def test_without_a_baseline_nothing_is_said_of_one(scripted):
    scripted.write(needing(100))
    ran = scripted.run()
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {""}
    assert "baseline" not in ran.line
    assert ran.outcome("test_bare") == (
        "not enforced: no baseline entry; --attnmem-update new writes one"
    )


def test_what_is_as_before_is_within(scripted):
    scripted.write(needing(100))
    write_baseline(scripted, *everywhere(100))
    ran = scripted.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 3}
    found = {(row["baseline_state"], row["outcome"], row["baseline_bytes"]) for row in ran.rows}
    assert found == {("same", "within", 100)}
    assert ran.row("test_bare")["limit_bytes"] == 100
    assert ran.row("test_marked")["limit_bytes"] == 1000
    assert ran.line == (
        "attnmem: 3 budgets, 3 within, 0 over, 0 not enforced; baseline: 3 same"
        " (--attnmem-report for the table)"
    )


def test_what_needs_more_than_before_fails_and_says_who_holds_it(scripted):
    scripted.write(needing(120))
    write_baseline(scripted, *everywhere(100))
    ran = scripted.run()
    assert ran.outcomes == {"failed": 3}
    assert set(states(ran).values()) == {"regressed"}
    assert {row["outcome"] for row in ran.rows} == {"over"}
    first = (
        "peak 120 B is 20 B over its baseline 100 B (+20.0%) on scripted   attnmem-baseline.json"
    )
    held = "    120 B  [120] uint8  take  model.py:7  in forward"
    meant = ["  if this is intended: --attnmem-update all", "  attnmem explain temporaries"]
    assert ran.report("test_bare") == [first, "  held at the peak (1 tensor):", held, *meant]
    assert ran.report("test_marked") == [
        first,
        "  budget    1000 B   test_suite.py:5",
        "  held at the peak (1 tensor):",
        held,
        *meant,
    ]
    region = "\n".join(ran.report("test_region"))
    assert region.startswith(f"part: {first}")
    assert held.strip() in region
    assert ran.short("test_bare").startswith("FAILED: BudgetExceeded: peak 120 B is 20 B over")
    assert ran.row("test_bare")["held"] != []
    assert "3 over, 0 not enforced; baseline: 3 regressed" in ran.line


def test_what_needs_less_is_reported_with_how_to_write_it_down_and_not_written(scripted):
    scripted.write(needing(90))
    path = write_baseline(scripted, *everywhere(100))
    before = path.read_bytes(), path.stat().st_mtime_ns
    ran = scripted.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"improved"}
    assert (
        "attnmem-baseline.json: 3 improved; --attnmem-update all writes it down"
        in ran.result.outlines
    )
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_machine_without_an_entry_borrows_none_and_says_so(scripted):
    scripted.write(needing(120))
    write_baseline(scripted, *everywhere(100, "simulated:A100-80GB"))
    ran = scripted.run()
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"new"}
    assert {row["baseline_bytes"] for row in ran.rows} == {None}
    assert ran.outcome("test_bare") == (
        "not enforced: no baseline entry here, only for simulated:A100-80GB; --attnmem-update new"
        " writes one"
    )
    assert (
        "attnmem-baseline.json: 3 new on scripted, and it has them for simulated:A100-80GB only;"
        " --attnmem-update new writes them"
    ) in ran.result.outlines


def test_over_its_own_budget_it_is_told_of_that(scripted):
    scripted.write(needing(1100))
    write_baseline(scripted, entry("test_marked", 100))
    ran = scripted.run("-k", "marked")
    assert ran.report("test_marked")[0] == "peak 1.1 KiB exceeds budget 1000 B (1.1x) on scripted"
    assert states(ran) == {"test_marked": "regressed"}


def test_a_limit_for_another_device_and_each_metric_leave_the_baseline(scripted):
    scripted.tests("""
@pytest.mark.memory_budget({"cuda": 1})
def test_same(): memory.use(100)

@pytest.mark.memory_budget({"cuda": 1})
def test_more(): memory.use(101)

@pytest.mark.memory_budget(metric="peak")
@pytest.mark.memory_budget(metric="retained")
def test_two(): memory.take(100); memory.take(20); memory.give(20)
""")
    two = (entry("test_two", 120), {**entry("test_two", 90), "metric": "retained"})
    write_baseline(scripted, entry("test_same", 100), entry("test_more", 100), *two)
    ran = scripted.run()
    assert ran.outcomes == {"passed": 1, "failed": 2}
    assert ran.outcome("test_same") == "not enforced: no limit for scripted, only for cuda"
    assert ran.outcome("test_more").startswith("over: peak 101 B is 1 B over its baseline 100 B")
    assert ran.outcome("test_two") == "within"
    assert ran.outcome("test_two", metric="retained").startswith(
        "over: retained 100 B is 10 B over its baseline 90 B (+11.1%)"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("pass", "nothing was allocated"),
        ("raise ValueError", "the test failed: ValueError"),
        ("pytest.skip('later')", "skipped: later"),
        ("memory.problem = 'a thread'; memory.use(300)", "a thread"),
    ],
)
def test_what_was_not_measured_is_no_regression_and_no_improvement(scripted, body, reason):
    scripted.tests(f"""
@pytest.mark.memory_budget
def test_it():
    {body}
""")
    write_baseline(scripted, entry("test_it", 100))
    ran = scripted.run("-rA")
    assert ran.outcome("test_it") == f"not enforced: {reason}"
    assert states(ran) == {"test_it": ""}
    assert "improved" not in ran.text


def test_expected_failures_and_stopping_work_as_with_budgets(scripted):
    scripted.tests("""
@pytest.mark.xfail(strict=True)
@pytest.mark.memory_budget
def test_expected(): memory.use(101)

@pytest.mark.memory_budget
def test_more(): memory.use(101)

@pytest.mark.memory_budget
def test_after(): memory.use(100)
""")
    names = ("test_expected", "test_more", "test_after")
    write_baseline(scripted, *(entry(name, 100) for name in names))
    ran = scripted.run("-x", "--junit-xml=junit.xml")
    assert ran.outcomes == {"failed": 1, "xfailed": 1}
    assert "is 1 B over its baseline" in (scripted.path / "junit.xml").read_text("utf-8")


def test_an_attempt_that_regressed_counts(scripted):
    pytest.importorskip("pytest_rerunfailures")
    scripted.tests("""
@pytest.mark.memory_budget
def test_flaky(request):
    memory.use(103 - request.node.execution_count)
""")
    write_baseline(scripted, entry("test_flaky", 101))
    ran = scripted.run("--reruns=2", has_reruns=True)
    assert ran.outcomes == {"failed": 1, "rerun": 2}
    assert ran.row("test_flaky")["baseline_state"] == "regressed"


def test_the_tolerance_is_against_the_baseline(scripted):
    scripted.write(needing(102))
    write_baseline(scripted, *everywhere(100))
    assert scripted.run("--attnmem-tolerance=2%").outcomes == {"passed": 3}
    scripted.ini["attnmem_tolerance"] = "2%"
    ran = scripted.run()
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"same"}
    ran = scripted.run("--attnmem-tolerance=1%")
    assert ran.outcomes == {"failed": 3}
    assert ran.report("test_bare")[0] == (
        "peak 102 B is 2 B over its baseline 100 B (+2.0%) with tolerance 1% on scripted  "
        " attnmem-baseline.json"
    )


def test_the_file_may_be_another(scripted):
    scripted.write(needing(101))
    scripted.write("", "sub/empty")
    write_baseline(scripted, *everywhere(100))
    write_baseline(scripted, *everywhere(101), name="sub/other.json")
    assert scripted.run("--attnmem-baseline=sub/other.json").outcomes == {"passed": 3}


@pytest.mark.parametrize("processes", [(), pytest.param(("-n2",), marks=pytest.mark.thorough)])
@pytest.mark.parametrize("text", [None, "{", '{"schema": 2}'])
def test_a_file_that_is_missing_or_damaged_is_one_line_before_any_test(scripted, text, processes):
    if processes:
        pytest.importorskip("xdist")
    scripted.write(needing(100))
    if text is not None:
        scripted.write(text, "b.json")
    ran = scripted.run("--attnmem-baseline=b.json", *processes)
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    (line, *rest) = ran.result.errlines
    assert line.startswith(f"ERROR: cannot read baseline {scripted.path / 'b.json'}: ")
    assert rest == [""]
    assert "INTERNALERROR" not in ran.text
    assert not ran.rows


def test_a_damaged_file_or_a_link_to_nowhere_in_the_usual_place_is_refused_too(scripted):
    scripted.write(needing(100))
    path = scripted.write("<<<<<<< ours\n", "attnmem-baseline.json")
    ran = scripted.run()
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0].endswith(
        "a merge left a conflict in line 1; keep the entries of both sides, and run"
        " --attnmem-update all"
    )
    assert scripted.run("--attnmem-update=all").result.ret == pytest.ExitCode.USAGE_ERROR
    assert path.read_text() == "<<<<<<< ours\n"
    assert scripted.run("--attnmem-disable").outcomes == {"passed": 3}
    if sys.platform != "win32":  # links are POSIX's
        path.unlink()
        path.symlink_to("nowhere")
        assert scripted.run().result.ret == pytest.ExitCode.USAGE_ERROR


def test_the_table_has_the_change(scripted):
    scripted.write(needing(120) + "\n@pytest.mark.memory_budget(9)\ndef test_new(): memory.use(9)")
    write_baseline(scripted, *everywhere(100))
    ran = scripted.run("--attnmem-report")
    table = [line.split() for line in ran.result.outlines if line.startswith("test_suite.py::")]
    assert [(row[0].partition("::")[2], row[-3:]) for row in table if "test_new" in row[0]] == [
        ("test_new", ["100.0", "new", "within"])
    ]
    assert ["+20", "B", "over"] in [row[-3:] for row in table]


@pytest.mark.parametrize("workers", ["", pytest.param("-n1", marks=pytest.mark.thorough)])
def test_a_baseline_that_was_asked_for_and_is_of_no_test_fails_the_session(scripted, workers):
    scripted.write(needing(100))
    asked = ("--attnmem-baseline=attnmem-baseline.json", *workers.split())
    write_baseline(scripted, {**entry("", 100), "test": "tests/test_a.py::test_bare"})
    ran = scripted.run(*asked)
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert (
        "attnmem: attnmem-baseline.json: no test was collected that its 1 entry is of, as"
        f" tests/test_a.py::test_bare; run under the rootdir of its tests, now {scripted.path}, or"
        " write it again: --attnmem-update all"
    ) in ran.result.outlines
    assert scripted.run(*workers.split()).result.ret == pytest.ExitCode.OK  # nobody asked for it
    for some in (["-k", "bare"], ["test_suite.py::test_bare"]):
        write_baseline(scripted, entry("test_marked", 100))
        assert scripted.run(*asked, *some).result.ret == pytest.ExitCode.OK
