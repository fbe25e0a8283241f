"""``attnmem compare`` fails where a test that was measured is gone, and names it."""

import pytest

from pytest_attnmem.cli import main

SUITE = """
@pytest.mark.memory_budget(100)
@pytest.mark.parametrize("n", "abc")
def test_it(n): memory.use(100)

@pytest.mark.skip
@pytest.mark.memory_budget(100)
def test_skipped(): pass
"""


@pytest.fixture
def compare(scripted, monkeypatch, capsys):
    """Compares a whole session with one that ran some of its tests only."""
    scripted.tests(SUITE)
    monkeypatch.chdir(scripted.path)
    scripted.run(json_file="base.json")

    def comparing(*tests):
        scripted.run(*tests, json_file="head.json")
        capsys.readouterr()
        code = main(["compare", "base.json", "head.json", "--fail-on", "2%+1MiB"])
        return code, capsys.readouterr().out.splitlines()

    return comparing


def test_vanished_tests_fail_and_are_named(compare):
    code, lines = compare("test_suite.py::test_it[a]", "test_suite.py::test_skipped")
    assert code == 1
    removed = [line.split()[0] for line in lines if line.endswith("  removed")]
    assert removed == ["test_suite.py::test_it[b]", "test_suite.py::test_it[c]"]
    assert lines[0] == "2 of 4 tests failed the comparison: 2 removed, 2 unchanged."


def test_a_test_that_was_not_measured_may_go(compare):
    code, lines = compare("test_suite.py::test_it")
    assert code == 0
    assert lines[0] == ("none of 3 tests failed the comparison: 1 removed unmeasured, 3 unchanged.")
