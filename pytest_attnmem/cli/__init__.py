"""The command ``attnmem``; each subcommand is one file."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import Final

from .. import __version__
from ..errors import AttnMemError, BudgetError, ProgramRefused
from ..leave import leave
from ..measurement.environment import kept_workspaces
from ..program_frames import program_lines
from ..units import excerpt, shown

#: The subcommands, in the order of ``attnmem --help``: the name of a module is the command, and the
#: first line of its docstring the help. Each has ``add_arguments`` and ``execute``.
COMMANDS: tuple[ModuleType, ...] = tuple(
    import_module(f".{name}", __name__)
    for name in (
        *("init", "sweep", "plot", "predict", "max_length", "model", "roofline", "derive", "run"),
        *("explain", "bisect", "history", "compare", "merge", "report", "install", "doctor"),
        *("verify", "certify"),
    )
)

#: Arguments that are lists and may be empty.
_LISTS: Final = frozenset(
    {"shapes", "sizes", "number", "program", "arg", "input", "size", "tests", "paths", "stand_in"}
    | {"modules", "operators"}
)
#: The words of ``attnmem init`` that are not pytest's.
_OF_INIT: Final = ("init", "--apply", "--json", "-h", "--help")
_MAX_LINE: Final = 1000


def make_parser() -> ArgumentParser:
    """Returns the parser of the command line."""
    parser = ArgumentParser(prog="attnmem", description="Memory complexity as a unit test.")
    parser.add_argument("--version", action="version", version=f"attnmem {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        summary = (module.__doc__ or "").partition("\n")[0]
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        sub = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(sub)
        sub.set_defaults(execute=module.execute)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code, or 2 after an error message of one line.

    As in a shell, the exit code is 130 after an interrupt and 141 after a closed pipe.
    """
    words, tests = _split(sys.argv[1:] if argv is None else argv)
    parser = make_parser()
    if not words:
        parser.print_help(sys.stderr)
        return 2
    arguments = parser.parse_args(words, Namespace(tests=tests))
    try:
        _check_values(arguments)
        # A user's program runs as it would without us; all other commands list workspaces apart.
        with nullcontext() if arguments.command == "run" else kept_workspaces():
            code = int(arguments.execute(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(f"attnmem {arguments.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except BaseException as error:  # a user's code may raise SystemExit, or an outcome of pytest
        line = _told(error)
        if not line:
            raise
        line = excerpt(line, _MAX_LINE)  # a path may be long or contain line breaks
        print(f"attnmem {arguments.command}: {line}", file=sys.stderr)
        if not isinstance(error, ModuleNotFoundError):
            lines = (*program_lines(error.__cause__), *program_lines(error))
            print(*lines, sep="", end="", file=sys.stderr)
        return 2


def _told(error: BaseException) -> str:
    """Returns what to print of an error; empty if it is a mistake of ours."""
    if isinstance(error, (AttnMemError, ProgramRefused)):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        return "needs torch, which is not installed; pip install torch"
    if isinstance(error, OSError) and error.filename is None:  # standard output has no name
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return f"cannot write to standard output: {error.strerror}"
    return f"the program raised {shown(error, 200)}" if program_lines(error) else ""


def _split(argv: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    """Returns the words of the command, and pytest's words after ``--`` for a command that runs it.

    argparse would take ``--all -- tests`` after a positional argument for unknown words.
    """
    if argv[:1] == ["init"]:  # all words but its own are pytest's
        own = [word for word in argv if word in _OF_INIT]
        return own, [word for word in argv if word not in (*_OF_INIT, "--")]
    if argv[:1] not in (["bisect"], ["history"]) or "--" not in argv:
        return argv, []
    end = argv.index("--")
    return argv[:end], [*argv[end + 1 :]]


def _check_values(arguments: Namespace) -> None:
    """Check that options have values: argparse reads ``--N=--`` as an empty list."""
    for name, value in vars(arguments).items():
        if value == [] and name not in _LISTS:
            raise BudgetError(f"--{name.replace('_', '-')} has no value; write one in place of --")


def console() -> None:
    """Runs the console script."""
    if not sys.stdout:  # closed, as by >&-
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may lack a character
        sys.stdout.reconfigure(errors="backslashreplace")
    code = main()
    # The process of a user's program ends as it would without us.
    if sys.argv[1:2] != ["run"] and "torch" in sys.modules:
        leave(code)
    sys.exit(code)
