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


def test_importing_the_plugin_and_running_an_unmarked_suite_imports_nothing_heavy(
    suite, monkeypatch
):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # a setting of pytest-asyncio
    suite.write("""
import sys

HEAVY = {"torch", "numpy", "tabulate"}

def test_it(): print("loaded:", sorted(HEAVY & set(sys.modules)))

def teardown_module(): print("after:", sorted(HEAVY & set(sys.modules)))
""")
    plain = "import sys, pytest; before = set(sys.modules); import pytest_attnmem.plugin;" + (
        "print(sorted({'torch', 'numpy', 'tabulate'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", plain], capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "[]\n"
    only = ["-p", "no:cacheprovider", "-p", "attnmem", "-s", "-q"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *only],
        cwd=suite.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in ran.stdout
    assert "loaded: []" in ran.stdout
    assert "after: []" in ran.stdout


def test_without_garbage_collection_being_touched(suite):
    suite.write("""
import gc

def test_it(): assert gc.isenabled()
""")
    assert suite.run(json_file=None).outcomes == {"passed": 1}
