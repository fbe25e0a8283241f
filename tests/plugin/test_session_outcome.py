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
        nodeid="t", longrepr=longrepr, failed=outcome == "failed", skipped=outcome == "skipped"
    )


@pytest.fixture
def outcome(tmp_path):
    return SessionOutcome(tmp_path)


def raised(message):
    return SimpleNamespace(reprcrash=SimpleNamespace(message=message))


@pytest.mark.parametrize(
    ("longrepr", "error"),
    [
        (raised("ValueError: no\nmore"), "ValueError: no"),
        (raised('  File "a.py", line 3\n    x\nSyntaxError: no'), "SyntaxError: no"),
        (COLLECTED, "ModuleNotFoundError: No module named 'absent'"),
        ("file test_a.py, line 3\nfixture 'absent' not found\n", "fixture 'absent' not found"),
        ("", ""),
    ],
    ids=["raised", "a wrong file", "collected", "without a mark", "nothing"],
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
    ("argument", "error"),
    [
        ("--no-such", "error: unrecognized arguments: --no-such"),
        ("no_such.py", "file or directory not found: no_such.py"),
        ("broken", "ModuleNotFoundError: No module named 'no_such' (from "),
    ],
)
def test_a_refused_session_has_pytests_own_words(pytester, outcome, argument, error):
    pytester.mkdir("broken").joinpath("conftest.py").write_text("import no_such", "utf-8")
    result = pytester.runpytest_inprocess("-pno:cacheprovider", argument, plugins=[outcome])
    outcome.write(pytester.path / "outcome.json", int(result.ret))
    found = json.loads((pytester.path / "outcome.json").read_text("utf-8"))
    assert found["exit_code"] == 4
    (told,) = found["errors"]
    assert error in told
    assert "\n" not in told


class Tracing:
    """A plugin with the option of pytest-cov."""

    def __init__(self):
        self.seen = None

    def pytest_addoption(self, parser):
        parser.addoption("--no-cov", action="store_true", default=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config):
        self.seen = early_config.known_args_namespace.no_cov

    def pytest_configure(self, config):
        assert config.option.no_cov
        assert config.option.numprocesses == 0


def test_other_plugins_are_kept_still_where_they_are_loaded(pytester, outcome):
    tracing = Tracing()
    pytester.makepyfile("def test_it(): pass")
    options = ("-pno:cacheprovider", "-n4")
    pytester.runpytest_inprocess(*options, plugins=[outcome, tracing]).assert_outcomes(passed=1)
    assert tracing.seen
    without = pytester.runpytest_inprocess(options[0], "-pno:xdist", plugins=[outcome])
    without.assert_outcomes(passed=1)
