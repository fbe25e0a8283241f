"""The exit codes and states of ``docs/reference/exit-codes.md``."""

import re
import shlex
from pathlib import Path

import pytest

from pytest_attnmem.baselines.entries import State
from pytest_attnmem.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "exit-codes.md"
SUITE = """
import pytest, torch

@pytest.mark.memory_budget("1 KiB")
def test_over(): torch.ones(1024)

@pytest.mark.memory_budget("1 KiB")
def test_nothing(): pass
"""


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("-k nothing --attnmem-strict off", 0),
        ("-k over", 1),
        ("-k nothing", 1),
        ("--attnmem-tolerance wide", 4),
        ("--attnmem-baseline missing.json", 4),
        ("-k unknown", 5),
    ],
)
def test_of_pytest(options, code, pytester):
    pytester.makepyfile(SUITE)
    ran = pytester.runpytest("--attnmem-backend=cpu", *shlex.split(options))
    assert ran.ret == code
    assert code in listed("pytest")


def test_of_the_command(capsys):
    assert main(["max-length", "standard", "--B", "1", "--H", "1", "--d", "64"]) == 0
    assert main(["derive", "nothing:at_all"]) == 2
    assert {0, 1, 2, 130, 141} == listed("attnmem")


def test_every_state_of_an_entry_is_listed():
    section = PAGE.read_text("utf-8").partition("## Baseline entries\n")[2]
    assert re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE) == [one.value for one in State]


def listed(title):
    section = PAGE.read_text("utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    return {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
