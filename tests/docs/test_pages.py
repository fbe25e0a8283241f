"""The README shows the true behaviour."""

import inspect
import re
from pathlib import Path
from runpy import run_path

import pytest

from pytest_attnmem import derive
from pytest_attnmem.budgets.parsing import memory_budget
from pytest_attnmem.cli import COMMANDS
from pytest_attnmem.measurement.measurement import METRICS
from pytest_attnmem.plugin.options import OPTIONS
from pytest_attnmem.symbols.names import ALIASES, SYMBOLS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

#: The imports that the README's examples leave to the reader.
IMPORTS = """\
import pytest
import torch
from attn import attention
from torch import nn
"""

NAME = re.compile(r"`(\w+)`")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def cells(lines):
    """The rows of a table as the report prints it, without the column that is empty."""
    rows = [re.split(r" {2,}", line.strip()) for line in lines if line]
    return [[cell for cell in row if cell != "Δ baseline"] for row in rows]


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(attn=blocks("python")[0])
    pytester.syspathinsert()
    return pytester


def test_the_first_test_fails_as_shown(suite):
    suite.makepyfile(test_attn=blocks("python")[1])
    result = suite.runpytest("test_attn.py")
    shown = blocks("console")[0].splitlines()[1:]
    assert len(shown) == 8
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in shown])
    result.assert_outcomes(failed=1)


def test_the_first_screen_is_one():
    assert blocks("python")[0].count("\n") == 7
    assert blocks("python")[1].count("\n") == 6
    assert README[: README.index(blocks("console")[0])].count("\n") < 30


def test_the_same_test_passes_with_tiles_as_shown(suite):
    (tiles,) = re.findall(r"`(from pytest_attnmem\S* import attention)`", README)
    suite.makepyfile(attn=tiles, test_attn=blocks("python")[1])
    result = suite.runpytest(*blocks("console")[1].splitlines()[0].split()[2:])
    result.assert_outcomes(passed=1)
    printed, shown = cells(result.outlines), cells(blocks("console")[1].splitlines()[1:])
    dashes = shown.pop(1)
    assert [row for row in printed if row in shown] == shown
    assert any(row[: len(dashes) - 1] == dashes[:-1] for row in printed)


def test_blocks_that_are_tests_pass(suite):
    tests = [block for block in blocks("python")[2:] if "def test_" in block]
    names = re.findall(r"def (test_\w+)", "".join(tests))
    assert names == [
        "test_mlp",
        "test_grows_with_the_length",
        "test_training_step",
        "test_tiles_pay",
    ]
    for name, test in zip(names, tests, strict=True):
        suite.makepyfile(**{name: f"{IMPORTS}\n\n{test}"})
    result = suite.runpytest("--attnmem-strict")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["attnmem: 8 budgets, 8 within, 0 over, 0 not enforced*"])


def test_the_signature_shown_is_the_markers():
    (shown,) = (block for block in blocks("python") if "limit=None" in block)
    given = inspect.signature(memory_budget).parameters.values()
    flat = " ".join(shown.split())
    for parameter in given:
        if parameter.kind is parameter.VAR_KEYWORD:
            assert f"**{parameter.name})" in flat
        else:
            assert f"{parameter.name}={parameter.default!r}".replace("'", '"') in flat


def test_every_option_is_listed():
    section = README.partition("## Options")[2].partition("## Baselines")[0]
    listed = re.findall(r"^\| `([\w-]+)[^`]*` \| ", section, re.MULTILINE)
    assert sorted(f"--attnmem-{name}" for name in listed) == sorted(o.flag for o in OPTIONS)


def test_every_command_is_listed():
    section = README.partition("## Commands")[2].partition("## Backends")[0]
    first_cells = re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE)
    listed = {name for cell in first_cells[1:] for name in re.findall(r"`([a-z-]+)", cell)}
    assert listed == {module.__name__.rpartition(".")[2].replace("_", "-") for module in COMMANDS}


def test_every_metric_and_symbol_is_listed():
    for name in (*METRICS, *SYMBOLS):
        assert f"| `{name}` |" in README


def test_all_names_of_a_symbol_are_listed():
    table = README.partition("### Symbols")[2].partition("Values come from")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", table, re.MULTILINE)
    listed = {name: symbol for symbol, names in rows for name in NAME.findall(names)}
    assert listed.pop("dtype") == "itemsize"
    assert listed == dict(ALIASES)


def test_the_closed_form_is_as_shown():
    (shown,) = (block for block in blocks("python") if block.startswith(">>> form"))
    names = {}
    exec(blocks("python")[0], names)
    form = derive(names["attention"], *["B H N d"] * 3, backward=True)
    values = form.polynomial, form.degree("N"), form.evaluate(B=1, H=8, N=2048, d=64)
    assert " ".join(map(str, values)) == shown.splitlines()[-1]


def test_the_page_of_kernels_is_current():
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert page == run_path(str(ROOT / "benchmarks" / "kernels_page.py"))["render"]()


def test_the_readme_is_narrow_and_short():
    lines = README.splitlines()
    assert max(map(len, lines)) <= 120
    assert len(lines) < 300


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists()


def test_the_table_of_devices_is_current():
    page = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    assert page == run_path(str(ROOT / "benchmarks" / "devices_table.py"))["render"](page)


def test_contributing_is_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 120
