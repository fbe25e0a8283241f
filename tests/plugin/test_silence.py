"""A session without budgets shows no trace of the plugin."""

import re
import subprocess
import sys

import pytest

SUITE = """
import gc
import pytest

def test_passes(): assert gc.isenabled() and not gc.get_freeze_count()
def test_fails(): assert 1 == 2
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_xfails(): assert False
@pytest.fixture
def broken(): raise ValueError
def test_errors(broken): pass
"""


def seen(text):
    """The output without the time, and the header line with every plugin's name."""
    lines = [line for line in text.splitlines() if not line.startswith("plugins: ")]
    return [re.sub(r" in \d+\.\d+s", " in …s", line) for line in lines]


@pytest.mark.parametrize(
    "arguments", [(), ("-v",), ("-q",), ("--collect-only",), ("--setup-plan",)]
)
def test_the_output_is_the_same_as_without_the_plugin(suite, arguments):
    suite.write(SUITE.replace("and not gc.get_freeze_count()", ""))
    with_it = suite.run(*arguments, json_file=None)
    without = suite.run(*arguments, "-pno:attnmem", json_file=None)
    assert "attnmem" in with_it.text or "-q" in arguments
    assert seen(with_it.text) == seen(without.text)
    assert with_it.result.ret == without.result.ret


def test_a_suite_without_budgets_imports_few_modules_and_none_that_is_heavy(suite, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    suite.write(SUITE)
    suite.write(
        """
import sys

def pytest_unconfigure(): print("modules:", *sys.modules)
""",
        "conftest.py",
    )

    def modules(*arguments):
        command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", *arguments]
        ran = subprocess.run(command, cwd=suite.path, capture_output=True, text=True, check=False)
        assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in ran.stdout
        (line,) = (line for line in ran.stdout.splitlines() if line.startswith("modules: "))
        return {*line.split()}

    # By its module: pytest 8 imports email.parser to find a plugin by its name.
    added = modules("-p", "pytest_attnmem.plugin") - modules()
    assert "pytest_attnmem.plugin" in added
    assert added.isdisjoint({"torch", "numpy", "tabulate"})
    assert len(added) <= 15, sorted(added)
