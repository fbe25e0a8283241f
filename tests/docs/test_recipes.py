"""What the page of CI names exists."""

import re
import shlex
from argparse import ArgumentParser
from pathlib import Path

import yaml

from pytest_attnmem.cli import COMMANDS
from pytest_attnmem.plugin.options import OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
YAML = [block for language, block in BLOCKS if language == "yaml"]
NAMES = {f"--attnmem-{option.name}": option for option in OPTIONS}


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
    assert len(YAML) == 4
    assert len(list(words("pytest"))) == 4
    assert len(list(words("attnmem"))) == 5


def test_every_option_of_ours_exists():
    named = set(re.findall(r"--attnmem-\w+", PAGE))
    assert named - NAMES.keys() == set()
    ini = set(re.findall(r"attnmem_(\w+) =", PAGE))
    assert ini - {option.name for option in OPTIONS} == set()


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
