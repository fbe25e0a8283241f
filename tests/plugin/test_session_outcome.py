"""The outcome of a session that a bisection runs: what kept its tests from being measured."""

import json
from types import SimpleNamespace

import pytest

from pytest_attnmem.plugin.session_outcome import SessionOutcome

COLLECTED = """ImportError while importing test module 'test_a.py'.
Traceback:
test_a.py:1: in <module>
    import absent
E   ModuleNotFoundError: No module named 'absent'

"""


def report(longrepr, outcome="failed"):
    return SimpleNamespace(
        longrepr=longrepr, failed=outcome == "failed", skipped=outcome == "skipped"
    )


@pytest.fixture
def outcome(tmp_path):
    return SessionOutcome(tmp_path)


@pytest.mark.parametrize(
    ("longrepr", "error"),
    [
        (
            SimpleNamespace(reprcrash=SimpleNamespace(message="ValueError: no\nmore")),
            "ValueError: no",
        ),
        (COLLECTED, "ModuleNotFoundError: No module named 'absent'"),
        ("file test_a.py, line 3\nfixture 'absent' not found\n", "fixture 'absent' not found"),
        ("", ""),
    ],
    ids=["raised", "collected", "without a mark", "nothing"],
)
def test_the_error_of_a_test_or_a_module_is_its_last_line(outcome, longrepr, error):
    outcome.pytest_runtest_logreport(report(longrepr))
    outcome.pytest_collectreport(report(longrepr))
    assert outcome.errors == [error, error]


def test_a_skip_has_its_reason_and_a_pass_no_error(outcome):
    outcome.pytest_runtest_logreport(report(("a.py", 3, "Skipped: no GPU"), "skipped"))
    outcome.pytest_runtest_logreport(report(None, "skipped"))  # an expected failure
    outcome.pytest_runtest_logreport(report(None, "passed"))
    outcome.pytest_collectreport(report(None, "passed"))
    assert outcome.errors == ["Skipped: no GPU"]


@pytest.mark.parametrize(
    ("code", "known", "errors"),
    [
        (0, [], []),
        (4, [], ["pytest found no such test, or refused an option"]),
        (4, ["ValueError: no"], ["ValueError: no"]),
    ],
)
def test_a_refused_session_says_so_if_nothing_else_was_wrong(
    outcome, tmp_path, code, known, errors
):
    outcome.errors += known
    outcome.write(tmp_path / "outcome.json", code)
    found = json.loads((tmp_path / "outcome.json").read_text("utf-8"))
    assert found == {"exit_code": code, "errors": errors, "rootdir": ""}
