"""``attnmem compare`` fails where a test that was measured is gone, and names it."""

from pytest_attnmem.cli import main

SUITE = """
@pytest.mark.memory_budget(100)
@pytest.mark.parametrize("n", "abc")
def test_it(n): memory.use(100)

@pytest.mark.skip
@pytest.mark.memory_budget(100)
def test_skipped(): pass
"""


def test_vanished_tests_fail_and_are_named_unless_they_were_not_measured(
    scripted, monkeypatch, capsys
):
    monkeypatch.chdir(scripted.path)
    scripted.tests(SUITE).run(json_file="base.json")
    compare = ["compare", "base.json", "head.json", "--fail-on", "2%+1MiB"]

    scripted.run("test_suite.py::test_it[a]", "test_suite.py::test_skipped", json_file="head.json")
    capsys.readouterr()
    assert main(compare) == 1
    lines = capsys.readouterr().out.splitlines()
    removed = [line.split()[0] for line in lines if line.endswith("  removed")]
    assert removed == ["test_suite.py::test_it[b]", "test_suite.py::test_it[c]"]
    assert lines[0] == "2 of 4 tests failed the comparison: 2 removed, 2 unchanged."

    scripted.run("test_suite.py::test_it", json_file="head.json")
    capsys.readouterr()
    assert main(compare) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "none of 3 tests failed the comparison: 1 removed unmeasured, 3 unchanged."
    )
