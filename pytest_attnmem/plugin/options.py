"""The options: the fields of one class give the command line, the ini file and the values.

Every session imports this module, and ``option_values`` only if an option is given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from ..errors import AttnMemError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ..budgets.budget import BudgetSpec
    from ..budgets.tolerance import Tolerance

MARKER = "memory_budget"
#: The marker that the plugin sets on tests that are measured.
SELECTING = "attnmem"

#: The value of a level that was given without one.
NO_VALUE = object()

#: The baseline, at the rootdir, unless another is named.
BASELINE = "attnmem-baseline.json"

#: The formats of the session's report, which are modules of ``report``, and their help.
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "csv": "write a line for each result to this file",
        "html": "write a page with tables and charts",
        "json": "write the results to this file",
        "markdown": "write a table for a pull request's comment",
    }
)
#: The formats that show the lifetimes of tensors.
_TIMELINES = ("json", "html")


class Option(NamedTuple):
    """One option, ``--attnmem-NAME`` and ``attnmem_NAME``."""

    name: str
    kind: str
    """``flag``, ``text``, ``amount``, ``path``, ``directory``, ``choice`` or ``level``.

    A ``level`` was a flag once: without a value it is refused, with the values to choose from.
    """
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None

    @property
    def flag(self) -> str:
        """Returns ``--attnmem-NAME``, with hyphens."""
        return f"--attnmem-{self.name.replace('_', '-')}"

    @property
    def accepted(self) -> str:
        """Returns what the ini file accepts, for a message."""
        if self.kind == "flag":
            return "true or false"
        what = {"path": "the path of a file", "directory": "the path of a directory"}
        shown = "|".join(self.choices) or self.metavar
        return f"{what.get(self.kind, 'one value')}, as in {self.flag} {shown}"


def _option(kind: str, help: str, **more: Any) -> dict[str, Any]:
    """Returns the metadata of a field that is an option of the same name."""
    return {"kind": kind, "help": help, **more}


@dataclass(frozen=True, slots=True)
class Settings:
    """The options and their values: command line over ini file over default."""

    report: bool = field(
        default=False, metadata=_option("flag", "print a table of every budget and region")
    )
    backend: str = field(
        default="auto",
        metadata=_option(
            "text",
            "measure with: auto, cuda, cuda:1, accelerator, null, null:H100, cpu, simulated:H100",
            metavar="NAME",
        ),
    )
    files: Mapping[str, Path] = field(default_factory=dict)
    """The files of the session's report, by format; each format has an option."""
    github: bool = field(
        default=False,
        metadata=_option("flag", "annotate failures for GitHub, and add to the step's summary"),
    )
    artifacts: Path | None = field(
        default=None,
        metadata=_option(
            "directory",
            "write what failing tests held to this directory, as traces and snapshots",
            metavar="DIR",
        ),
    )
    baseline: Path | None = field(
        default=None,
        metadata=_option(
            "path",
            "hold results to this file"
            " (default: attnmem-baseline.json at the rootdir, if it is there)",
            metavar="PATH",
        ),
    )
    update: str | None = field(
        default=None,
        metadata=_option(
            "choice",
            "write the baseline: all results, new ones only, or prune those of vanished tests",
            choices=("all", "new", "prune"),
        ),
    )
    tolerance: Tolerance | None = field(
        default=None,
        metadata=_option(
            "amount", "how far over the baseline is still the same, such as 2%+1MiB", metavar="T"
        ),
    )
    """Against the baseline; ``None``: the tolerance of the backend."""
    default: BudgetSpec | None = field(
        default=None,
        metadata=_option(
            "amount",
            "hold tests without a marker to this limit, such as '2 GiB'",
            metavar="LIMIT",
        ),
    )
    strict: str = field(
        default="marked",
        metadata=_option(
            "level",
            "fail what was not enforced: marked (tests with a limit of their own or a baseline"
            " entry, which could have been), all, or off",
            choices=("off", "marked", "all"),
            metavar="off|marked|all",
        ),
    )
    explain: str = field(
        default="auto",
        metadata=_option(
            "choice",
            "run once more to see who holds memory: auto (tests that are over), all, or off",
            choices=("auto", "all", "off"),
        ),
    )
    workspaces: str = field(
        default="out",
        metadata=_option(
            "choice",
            "leave the workspaces of matrix products out of budgets, or count them in",
            choices=("in", "out"),
        ),
    )
    """``out`` makes PyTorch 2.15 keep workspaces outside windows, as versions before it do."""
    values_limit: str = field(
        default="1e12",  # measurement.values_limit.VALUES_LIMIT
        metadata=_option("amount", "compute no value that takes more operations", metavar="FLOPS"),
    )
    disable: bool = field(
        default=False, metadata=_option("flag", "measure and enforce nothing; markers stay valid")
    )

    @property
    def evidence(self) -> bool:
        """Returns True if a file was requested that shows the lifetimes of tensors."""
        return self.artifacts is not None or any(kind in self.files for kind in _TIMELINES)


def _options() -> Iterator[Option]:
    for setting in fields(Settings):
        if setting.name == "files":
            for kind, help in FORMATS.items():
                yield Option(kind, "path", None, help, metavar="PATH")
        else:
            yield Option(setting.name, default=setting.default, **setting.metadata)


OPTIONS = (*_options(),)


def wants_baseline(config: pytest.Config, settings: Settings) -> bool:
    """Returns True if a baseline file exists, is asked for, or is to be written."""
    asked = settings.baseline is not None or settings.update is not None
    there = os.path.lexists(config.rootpath / BASELINE)  # a link to nowhere is a damaged one
    return not settings.disable and (asked or there)


def add_options(parser: pytest.Parser) -> None:
    """Adds every option; no option has an optional value, which would swallow a path.

    A level refuses each value but its own.
    """
    group = parser.getgroup("attnmem", "memory budgets (attnmem)")
    for option in OPTIONS:
        # The default is None, or a value in the ini file would never be looked at.
        keywords: dict[str, Any] = {"dest": f"attnmem_{option.name}", "default": None}
        if option.kind == "flag":
            keywords["action"] = "store_true"
        elif option.kind == "level":  # a path that it swallows is none of its values
            keywords |= {"nargs": "?", "const": NO_VALUE, "metavar": option.metavar}
        elif option.choices:
            keywords["choices"] = option.choices
        else:
            keywords["metavar"] = option.metavar
        shown = f" (default: {option.default})" if option.default else ""
        plain = (option.help + shown).replace("%", "%%")  # argparse fills in what % announces
        group.addoption(option.flag, help=plain, **keywords)
        kind: Any = "bool" if option.kind == "flag" else "string"
        if option.kind == "amount" and pytest.version_tuple >= (9, 2):
            kind = str | int | float  # of TOML
        parser.addini(f"attnmem_{option.name}", option.help + shown, type=kind, default=None)


class Given(NamedTuple):
    """The value of an option as it is written."""

    value: Any
    folder: Path
    """The folder of relative paths."""
    source: str
    """Where it is written: the name on the command line or in the ini file."""


def read_settings(config: pytest.Config) -> Settings:
    """Returns the values in force; the backend's name is not checked.

    Raises:
        AttnMemError: a value is not one of the option's.
    """
    given = {option.name: found for option in OPTIONS if (found := _given(config, option))}
    if not given:
        return Settings()
    from .option_values import settings_of

    return settings_of(given, config.rootpath)


def _given(config: pytest.Config, option: Option) -> Given | None:
    value = config.getoption(f"attnmem_{option.name}")
    if value is not None:
        return Given(value, config.invocation_params.dir, option.flag) if value != "" else None
    value = ini_value(config, option.name)
    if value is None or value == "":
        return None
    return Given(value, config.rootpath, f"attnmem_{option.name}")


def ini_value(config: pytest.Config, name: str) -> Any:
    """Returns the value of an option in the ini file; None if it is not there.

    Raises:
        AttnMemError: pytest cannot read it.
    """
    try:
        return config.getini(f"attnmem_{name}")
    except (TypeError, ValueError, pytest.UsageError, Warning) as error:
        (option,) = (option for option in OPTIONS if option.name == name)
        raise AttnMemError(f"attnmem_{name}: expected {option.accepted}: {error}") from error
