"""The formats of a report: each is one module, with an option."""

from importlib import import_module

import pytest

from pytest_attnmem.report import KINDS, render
from pytest_attnmem.report.summary import summarise

from .rows import RECORDS


def test_each_module_is_a_format() -> None:
    assert {"csv", "html", "json", "markdown", "trend"} <= {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_format_renders(kind: str) -> None:
    module = import_module(f"pytest_attnmem.report.formats.{kind}")
    summary = summarise(RECORDS)
    assert render(kind, summary, {}) == module.render(summary, {}) != ""
