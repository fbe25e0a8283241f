"""The formats of a report: each is one module, with an option."""

import subprocess
import sys
from importlib import import_module

import pytest

from pytest_attnmem.report import KINDS, option_help, render
from pytest_attnmem.report.summary import summarise

from .rows import RECORDS

#: Modules that only a report needs.
LATE = ("cells", "html", "json", "markdown", "growth_curves", "summary")


def test_each_module_is_a_format() -> None:
    assert {"csv", "html", "json", "markdown", "trend"} <= {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_format_has_a_help_text_and_renders(kind: str) -> None:
    module = import_module(f"pytest_attnmem.report.formats.{kind}")
    assert option_help(kind) == module.OPTION
    summary = summarise(RECORDS)
    assert render(kind, summary, {}) == module.render(summary, {}) != ""


def test_the_options_import_nothing_that_only_a_report_needs() -> None:
    program = "import sys, pytest_attnmem.plugin.options; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {*done.stdout.split()}
    assert "pytest_attnmem.report.formats.html" in loaded
    assert loaded & {f"pytest_attnmem.report.{name}" for name in LATE} == set()
