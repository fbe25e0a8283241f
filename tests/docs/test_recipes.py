"""The recipes: what they name exists, and what they show runs."""

import re
import shlex
from argparse import ArgumentParser
from pathlib import Path

import pytest
import yaml

from pytest_attnmem.cli import COMMANDS, main
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.plugin.options import OPTIONS
from pytest_attnmem.report.json import render
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
YAML = [block for language, block in BLOCKS if language == "yaml"]
NAMES = {f"--attnmem-{option.name}": option for option in OPTIONS}
ARITHMETIC = """\
import pytest
import torch

DEVICE = "cpu"


def attention(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v


"""


def commands(node):
    """Every line of shell in a workflow, a pipeline or a hook."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("run", "entry") and isinstance(value, str):
                yield from value.replace("\\\n", " ").splitlines()
            else:
                yield from commands(value)
    elif isinstance(node, list):
        for value in node:
            yield from [value] if isinstance(value, str) else commands(value)


LINES = [line for block in YAML for line in commands(yaml.safe_load(block))]


def words(program):
    """The arguments of each call of a program, up to what ends it in a shell."""
    for line in LINES:
        for call in re.split(r"&&|\|\||>>|;", re.sub(r"\$\{\{.*?\}\}", "1", line)):
            parts = shlex.split(call)
            if parts[:1] == [program]:
                yield parts[1:]


def test_the_page_was_read():
    assert len(YAML) == 8
    assert len(list(words("pytest"))) >= 8
    assert len(list(words("attnmem"))) == 4


def test_every_option_of_ours_exists():
    named = set(re.findall(r"--attnmem-\w+", PAGE))
    assert named - NAMES.keys() == set()
    ini = set(re.findall(r"attnmem_(\w+) =", PAGE))
    assert ini - {option.name for option in OPTIONS} == set()


def test_the_upgrade_that_is_shown_is_what_compare_prints(tmp_path, capsys):
    sdpa = "scaled_dot_product_efficient_attention"
    scratch = Held(32 << 20, (), "", "mm (scratch)", "")
    needed = {"2.13.0+cu130": (1048584, 6340616), "2.15.0+cu132": (34603016, 6340632)}
    files = []
    for torch, (product, attention) in needed.items():
        workspace, more = (64 << 20, ()) if not files else (0, (scratch,))
        shared = {"backend": "null:H100", "workspace_bytes": workspace}
        rows = (
            Record(
                "test_up.py::test_product",
                peak_bytes=product,
                **shared,
                held=(Held(1048584, (), "", "mm", ""), *more),
            ),
            Record(
                "test_up.py::test_sdpa",
                peak_bytes=attention,
                **shared,
                held=(Held(attention, (), "", sdpa, ""),),
            ),
        )
        files.append(tmp_path / f"{torch}.json")
        facts = {"torch": torch, "cuda": f"13.{torch[-1]}"}
        files[-1].write_text(render(summarise(rows), facts), "utf-8")
    assert main(["compare", *map(str, files), "--fail-on", "2%+1MiB"]) == 1
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert "\n".join(["```", *printed, "```"]) in PAGE


def test_options_that_take_a_value_are_given_one():
    for call in words("pytest"):
        for place, word in enumerate(call):
            if word in NAMES and NAMES[word].kind != "flag":
                assert not call[place + 1].startswith("-")


def test_every_command_takes_what_it_is_given():
    parsers = {}
    for module in COMMANDS:
        parser = ArgumentParser(exit_on_error=False)
        module.add_arguments(parser)
        parsers[module.__name__.rpartition(".")[2]] = parser
    for name, *rest in words("attnmem"):
        taken = vars(parsers[name].parse_args(rest))  # which raises for what is unknown
        assert any(value for value in taken.values())


@pytest.mark.parametrize("link", re.findall(r"\]\(#([^)]+)\)", PAGE))
def test_each_section_can_be_reached(link):
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert link in {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_tests_that_are_shown_pass(pytester):
    shown = [block for language, block in BLOCKS if language == "python"]
    pytester.makepyfile(ARITHMETIC + "\n\n".join(shown))
    result = pytester.runpytest("--attnmem-strict=all")
    result.assert_outcomes(passed=3)


def test_the_ini_file_that_is_shown_is_accepted(pytester):
    (shown,) = (block for language, block in BLOCKS if language == "ini")
    pytester.makeini(shown)
    pytester.makepyfile(ARITHMETIC + "def test_nothing(): pass")
    pytester.runpytest().assert_outcomes(passed=1)
