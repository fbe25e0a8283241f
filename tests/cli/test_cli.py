"""The command ``attnmem`` as a whole."""

import errno
import os
from unittest.mock import Mock

import pytest

import pytest_attnmem
from pytest_attnmem.cli import COMMANDS, main


def exits(capsys, word):
    """The code with which argparse ends, and what it printed."""
    with pytest.raises(SystemExit) as exit:
        main([word])
    return exit.value.code, *capsys.readouterr()


def test_the_version_is_the_packages_and_an_unknown_command_a_usage_error(capsys):
    assert exits(capsys, "--version") == (0, f"attnmem {pytest_attnmem.__version__}\n", "")
    code, _, err = exits(capsys, "none")
    assert code == 2
    assert "usage: attnmem" in err


def test_help_lists_every_command_with_what_it_is_for_and_so_does_no_command(capsys):
    code, listed, _ = exits(capsys, "--help")
    assert code == 0
    shown = " ".join(listed.split())
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        assert f"{name} {' '.join(module.__doc__.partition(chr(10))[0].split())}" in shown
    assert main([]) == 2
    assert capsys.readouterr() == ("", listed)


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (KeyboardInterrupt, 130, "attnmem predict: interrupted\n"),
        (BrokenPipeError, 141, ""),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            2,
            "attnmem predict: cannot write to standard output: No space left on device\n",
        ),
    ],
)
def test_what_ends_a_command_from_outside_is_no_traceback(monkeypatch, capfd, raised, code, told):
    monkeypatch.setattr("pytest_attnmem.cli.predict.execute", Mock(side_effect=raised))
    before = os.dup(1)
    try:
        assert main(["predict", "standard", "--B", "1", "--H", "1", "--N", "8", "--d", "8"]) == code
    finally:
        os.dup2(before, 1)
        os.close(before)
    assert capfd.readouterr().err == told
