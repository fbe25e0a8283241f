"""What the README shows is what happens."""

import re
from pathlib import Path

import pytest

from pytest_attnmem.measurement import METRICS
from pytest_attnmem.settings import OPTIONS
from pytest_attnmem.shape import ALIASES, SYMBOLS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

ATTENTION = """\
import torch


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(attn=ATTENTION)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.syspathinsert()
    return pytester


def test_the_first_test_fails_as_shown(suite):
    suite.makepyfile(test_attn=blocks("python")[0])
    result = suite.runpytest("test_attn.py")
    shown = blocks("console")[0].splitlines()[1:]
    assert len(shown) == 8
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in shown])
    result.assert_outcomes(failed=1)


def test_the_first_test_has_six_lines():
    assert len([line for line in blocks("python")[0].splitlines() if line]) == 5
    assert blocks("python")[0].count("\n") == 6


def test_the_fixtures_example_passes(suite):
    (example,) = (block for block in blocks("python") if "attnmem.region" in block)
    suite.makepyfile(test_step=f"from attn import attention\n\n{example}")
    suite.runpytest("test_step.py").assert_outcomes(passed=1)


def test_every_option_is_listed():
    listed = re.findall(r"^\| `(\w+)[^`]*` \| ", README.partition("## Options")[2], re.MULTILINE)
    assert listed == [option.name for option in OPTIONS]


def test_every_metric_and_symbol_is_listed():
    for name in (*METRICS, *SYMBOLS):
        assert f"| `{name}` |" in README


def test_the_names_listed_for_a_symbol_are_known():
    table = README.partition("### Symbols")[2].partition("Values come from")[0]
    for symbol, names in re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", table, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            assert name == "dtype" or ALIASES[name] == symbol


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (ROOT / target).exists()


def test_contributing_is_short():
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 80
