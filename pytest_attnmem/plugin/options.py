"""The options: the fields of one class give the command line, the ini file and the values.

Imported by the plugin in every session, so nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ..backends.registry import EXAMPLES
from ..errors import AttnMemError
from ..measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ..report import KINDS, option_help
from .option_paths import directory, file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..budgets.budget import BudgetSpec
    from ..budgets.tolerance import Tolerance

MARKER = "memory_budget"
#: The marker that the plugin sets on tests that are measured.
SELECTING = "attnmem"

#: The baseline, at the rootdir, unless another is named.
BASELINE = "attnmem-baseline.json"


class Option(NamedTuple):
    """One option, ``--attnmem-NAME`` and ``attnmem_NAME``."""

    name: str
    kind: str
    """``flag``, ``text``, ``path``, ``directory`` or ``choice``."""
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None

    @property
    def flag(self) -> str:
        """Returns ``--attnmem-NAME``, with hyphens."""
        return f"--attnmem-{self.name.replace('_', '-')}"


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
        metadata=_option("text", f"measure with: {', '.join(EXAMPLES)}", metavar="NAME"),
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
            "text", "how far over the baseline is still the same, such as 2%+1MiB", metavar="T"
        ),
    )
    """Against the baseline; ``None``: the tolerance of the backend."""
    default: BudgetSpec | None = field(
        default=None,
        metadata=_option(
            "text", "hold tests without a marker to this limit, such as '2 GiB'", metavar="LIMIT"
        ),
    )
    strict: bool = field(
        default=False, metadata=_option("flag", "fail what a budget could not be enforced for")
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
        default=VALUES_LIMIT,
        metadata=_option("text", "compute no value that takes more operations", metavar="FLOPS"),
    )
    disable: bool = field(
        default=False, metadata=_option("flag", "measure and enforce nothing; markers stay valid")
    )

    @property
    def evidence(self) -> bool:
        """Returns True if a file was requested that shows the lifetimes of tensors."""
        return self.artifacts is not None or not _TIMELINES.isdisjoint(self.files)


#: The formats that show the lifetimes of tensors.
_TIMELINES = frozenset({"json", "html"})


def _options() -> Iterator[Option]:
    for setting in fields(Settings):
        if setting.name == "files":
            for kind in KINDS:
                yield Option(kind, "path", None, option_help(kind), metavar="PATH")
        else:
            yield Option(setting.name, default=setting.default, **setting.metadata)


OPTIONS = (*_options(),)


def wants_baseline(config: pytest.Config, settings: Settings) -> bool:
    """Returns True if a baseline file exists, is asked for, or is to be written."""
    asked = settings.baseline is not None or settings.update is not None
    there = os.path.lexists(config.rootpath / BASELINE)  # a link to nowhere is a damaged one
    return not settings.disable and (asked or there)


def add_options(parser: pytest.Parser) -> None:
    """Adds every option; no option has an optional value, which would swallow a path."""
    group = parser.getgroup("attnmem", "memory budgets (attnmem)")
    for option in OPTIONS:
        # The default is None, or a value in the ini file would never be looked at.
        keywords: dict[str, Any] = {"dest": f"attnmem_{option.name}", "default": None}
        if option.kind == "flag":
            keywords["action"] = "store_true"
        elif option.choices:
            keywords["choices"] = option.choices
        else:
            keywords["metavar"] = option.metavar
        shown = f" (default: {option.default})" if option.default else ""
        plain = (option.help + shown).replace("%", "%%")  # argparse fills in what % announces
        group.addoption(option.flag, help=plain, **keywords)
        kind = "bool" if option.kind == "flag" else "string"
        parser.addini(f"attnmem_{option.name}", option.help + shown, type=kind, default=None)  # type: ignore[arg-type]


def read_settings(config: pytest.Config) -> Settings:
    """Returns the values in force; the backend's name is not checked.

    Raises:
        AttnMemError: a value is not one of the option's.
    """
    values = {option.name: _value(config, option) for option in OPTIONS}
    if values["strict"] and values["disable"]:
        raise AttnMemError(
            "attnmem: strict and disable contradict each other; strict fails what is not enforced"
        )
    if values["update"] and values["disable"]:
        raise AttnMemError(
            "attnmem: update and disable contradict each other; what is not measured cannot be"
            " written"
        )
    _check_files(values, config.rootpath / BASELINE)
    files = {kind: path for kind in KINDS if (path := values.pop(kind)) is not None}
    return Settings(files=files, **values)


def _check_files(values: Mapping[str, Any], usual: Path) -> None:
    """Check that no option writes a file that another option reads or writes."""
    named: dict[str, str] = {}
    for option in OPTIONS:
        path = values[option.name] or (usual if option.name == "baseline" else None)
        if option.kind == "path" and path is not None:
            other = named.setdefault(os.path.realpath(path), option.name)
            if other != option.name:
                raise AttnMemError(
                    f"attnmem: {other} and {option.name} name the same file, {path}; give each its"
                    " own"
                )


def _value(config: pytest.Config, option: Option) -> Any:
    value, base, source = config.getoption(f"attnmem_{option.name}"), Path.cwd(), option.flag
    if value is None:
        value, base, source = _ini(config, option), config.rootpath, f"attnmem_{option.name}"
    if value is None or value == "":
        return option.default
    if value == []:  # argparse reads --attnmem-tolerance=-- so
        raise AttnMemError(f"{source} has no value; write one in place of --")
    if option.choices and value not in option.choices:
        raise AttnMemError(f"{source}: {value!r} is not one of {', '.join(option.choices)}")
    try:
        if option.kind in ("path", "directory") and "\0" in value:
            raise ValueError("embedded null byte")
        if option.kind == "path":
            return file(base / value, source)
        if option.kind == "directory":
            return directory(base / value, source)
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        why = getattr(error, "strerror", None) or error
        raise AttnMemError(f"{source}: {why}: {value!r:.80}") from error
    try:
        if option.name == "tolerance":
            from ..budgets.tolerance import parse_tolerance

            return parse_tolerance(value)
        if option.name == "values_limit":
            parse_values_limit(value)
        if option.name == "default":
            return _for_every_test(value)
    except AttnMemError as error:
        raise AttnMemError(f"{source}: {error}") from error
    return value


def _for_every_test(limit: str) -> BudgetSpec:
    from ..budgets.growth_contract import is_contract
    from ..budgets.parsing import parse

    if is_contract(limit):
        raise AttnMemError(
            "a growth contract is for tests that take what it varies; mark them with"
            f" {limit!r:.100}"
        )
    return parse((limit,), {})


def _ini(config: pytest.Config, option: Option) -> Any:
    try:
        return config.getini(f"attnmem_{option.name}")
    except (TypeError, ValueError, pytest.UsageError) as error:
        raise AttnMemError(f"attnmem_{option.name}: {error}") from error
