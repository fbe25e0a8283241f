"""Stale entries are reported and pruned only if the whole suite ran."""

import json

import pytest

from .baselines import entry, everywhere, needing, read_baseline, states, write_baseline

LINE = (
    "attnmem-baseline.json: 1 stale, measured no more: test_suite.py::test_gone; --attnmem-update"
    " prune takes them out"
)


@pytest.fixture
def gone(scripted):
    """A suite without a test of its baseline."""
    scripted.write(needing(100))
    scripted.write("def test_other(): pass", "other/test_other.py")
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7), entry("test_gone", 8, "cpu"))
    return scripted


def test_a_test_that_is_gone_is_told(gone):
    ran = gone.run("--attnmem-report")
    assert ran.result.ret == pytest.ExitCode.OK
    assert LINE in ran.result.outlines
    assert "baseline: 3 same, 1 stale" in ran.line
    assert states(ran)["test_gone"] == "stale"
    row = ran.row("test_gone")
    assert (row["outcome"], row["baseline_bytes"], row["peak_bytes"]) == (None, 7, None)
    assert ["stale", "not", "measured"] in [line.split()[-3:] for line in ran.result.outlines]


def test_under_strict_it_fails_the_session(gone):
    ran = gone.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 4}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    lines = ran.result.outlines
    why = "attnmem: 1 stale entry of attnmem-baseline.json fails the session (--attnmem-strict all)"
    assert lines.index(LINE) < lines.index(why)


def test_prune_takes_out_the_entries_of_this_machine(gone):
    ran = gone.run("--attnmem-update=prune", "--attnmem-strict=all")
    assert ran.result.ret == pytest.ExitCode.OK
    assert "attnmem-baseline.json (--attnmem-update prune): 1 taken out, 4 as before" in (
        ran.result.outlines
    )
    assert read_baseline(gone) == {
        "test_bare": 100,
        "test_gone cpu": 8,
        "test_marked": 100,
        "test_region part": 100,
    }


def test_prune_writes_no_measurement_and_holds_to_the_others(gone):
    gone.write(needing(120))
    ran = gone.run("--attnmem-update=prune")
    assert ran.outcomes == {"passed": 1, "failed": 3}
    assert set(read_baseline(gone).values()) == {100, 8}


PARTIAL = {
    "-k": (("-k", "marked"), "tests were left out"),
    "-m": (("-m", "not memory_budget"), "tests were left out"),
    "--deselect": (("--deselect", "test_suite.py::test_bare"), "a test was left out"),
    "a file": (("other/test_other.py",), "test_suite.py is not among the paths that were given"),
    "a test": (("test_suite.py::test_bare",), "single tests were asked for"),
    "--lf": (("-pcacheprovider", "--lf"), "--lf was given"),
    "--sw": (("-pcacheprovider", "-pstepwise", "--sw"), "--stepwise was given"),
    "--collect-only": (("--collect-only",), "no test ran"),
    "--setup-only": (("--setup-only",), "no test ran"),
    "--setup-plan": (("--setup-plan",), "no test ran"),
}


@pytest.mark.parametrize(("arguments", "why"), PARTIAL.values(), ids=PARTIAL)
def test_where_not_everything_ran_nothing_is_stale(gone, arguments, why):
    before = (gone.path / "attnmem-baseline.json").read_bytes()
    ran = gone.run("--attnmem-strict=all", *arguments)
    assert "stale, measured no more" not in ran.text
    ran = gone.run("--attnmem-update=prune", *arguments)
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert (
        f"attnmem: attnmem-baseline.json was not written: prune needs the whole suite: {why}"
        in ran.result.outlines
    )
    assert (gone.path / "attnmem-baseline.json").read_bytes() == before


def test_a_plugin_that_leaves_tests_out_without_a_word_is_noticed(gone):
    conftest = (gone.path / "conftest.py").read_text()
    gone.write(
        f"{conftest}\ndef pytest_collection_modifyitems(items): del items[1:]\n", "conftest.py"
    )
    ran = gone.run("--attnmem-update=prune")
    assert "prune needs the whole suite: tests were left out" in ran.text


def test_stopping_early_is_not_the_whole_suite(gone):
    gone.write(needing(120))
    ran = gone.run("--attnmem-update=prune", "-x")
    assert "attnmem-baseline.json was not written: " in ran.text
    assert "test_gone" in read_baseline(gone)


@pytest.mark.parametrize("argument", [".", "test_suite.py"])
def test_paths_that_have_every_file_of_the_baseline_are_the_whole_suite(gone, argument):
    assert LINE in gone.run(argument).result.outlines


def test_a_file_that_cannot_be_looked_into_makes_nothing_stale(gone):
    gone.write("import pytest; pytest.importorskip('absent')\n" + needing(1), "test_skipped.py")
    gone.write("raise ValueError", "test_broken.py")
    gone.write("collect_ignore = ['test_ignored.py']", "sub/conftest.py")
    gone.write("", "sub/test_ignored.py")
    more = [
        {"test": f"{file}::test_it", "metric": "peak", "on": "scripted", "bytes": 1}
        for file in ("test_skipped.py", "test_broken.py", "sub/test_ignored.py", "test_deleted.py")
    ]
    write_baseline(gone, *everywhere(100), *more)
    ran = gone.run("--continue-on-collection-errors")
    assert [row["nodeid"] for row in ran.rows if row["baseline_state"] == "stale"] == [
        "test_deleted.py::test_it"
    ]


def test_a_test_that_is_measured_no_more_is_stale(scripted):
    scripted.tests("""
def test_regions(attnmem):
    with attnmem.region("kept"):
        memory.use(100)

@pytest.mark.memory_budget
def test_failed():
    memory.use(100)
    raise ValueError

@pytest.mark.skip
@pytest.mark.memory_budget
def test_skipped(): pass

@pytest.mark.memory_budget(1)
def test_nothing(): pass
""")
    tests = ("test_regions", "test_failed", "test_skipped", "test_nothing")
    regions = [entry("test_regions", 100, region=name) for name in ("kept", "gone")]
    write_baseline(scripted, *(entry(test, 100) for test in tests), *regions)
    ran = scripted.run()
    assert [
        (row["nodeid"].partition("::")[2], row["region"])
        for row in ran.rows
        if row["baseline_state"] == "stale"
    ] == [("test_regions", ""), ("test_regions", "gone")]


def test_a_file_to_prune_must_be_there(scripted):
    scripted.write(needing(100))
    ran = scripted.run("--attnmem-update=prune", "--attnmem-baseline=typo.json")
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0].startswith("ERROR: cannot read baseline ")


def test_where_nothing_was_measured_it_is_not_known_whose_entries_they_are(scripted):
    scripted.write("def test_it(): pass")
    write_baseline(scripted, entry("test_gone", 7))
    assert "stale, measured no more" not in scripted.run("--attnmem-strict=all").text
    ran = scripted.run("--attnmem-update=prune")
    assert (
        "prune needs the whole suite: nothing was measured, so the entries of this machine are not"
        " known"
    ) in ran.text
    assert len(json.loads((scripted.path / "attnmem-baseline.json").read_text())["entries"]) == 1
