"""``attnmem completion``; bash and fish are asked themselves, if they are there."""

import shutil
import subprocess

import pytest

from pytest_attnmem.cli import COMMANDS, main

NAMES = sorted(module.__name__.rpartition(".")[2].replace("_", "-") for module in COMMANDS)


@pytest.fixture
def complete(capsys):
    """Returns a function that asks bash for the completions of a line."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def completions(*words: str) -> list[str]:
        listed = " ".join(f"'{word}'" for word in words)
        asked = (
            f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _attnmem;"
            ' printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = [shutil.which("bash") or "bash", "--norc", "-c", f"{script}\n{asked}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()

    return completions


def test_bash_completes_commands_options_and_their_choices(complete):
    assert sorted(complete("attnmem", "")) == NAMES
    assert complete("attnmem", "bi") == ["bisect"]
    assert complete("attnmem", "bisect", "--tests") == ["--tests-from"]
    assert complete("attnmem", "completion", "") == ["-h", "--help", "bash", "zsh", "fish"]
    assert complete("attnmem", "nothing", "--") == []


def test_zsh_takes_the_function_of_bash(capsys):
    assert main(["completion", "zsh"]) == 0
    zsh = capsys.readouterr().out.splitlines()
    assert zsh[0] == "autoload -U +X bashcompinit && bashcompinit"
    assert main(["completion", "bash"]) == 0
    assert zsh[1:] == capsys.readouterr().out.splitlines()


def test_fish_has_a_line_for_each(capsys):
    assert main(["completion", "fish"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if "-n __fish_use_subcommand -f -a " in line]
    assert sorted(line.split()[7] for line in commands) == NAMES
    assert (
        "complete -c attnmem -n '__fish_seen_subcommand_from doctor' -l json"
        " -d 'print the result as JSON'"
    ) in lines
    assert (
        "complete -c attnmem -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'"
    ) in lines
