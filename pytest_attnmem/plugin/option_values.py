"""The values of the options that are given, on the command line or in the ini file."""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..budgets.budget import BudgetSpec
from ..budgets.growth_contract import is_contract
from ..budgets.parsing import parse
from ..budgets.tolerance import parse_tolerance
from ..errors import AttnMemError
from ..measurement.values_limit import parse_values_limit
from ..units import shown
from .options import BASELINE, FORMATS, NO_VALUE, OPTIONS, Given, Option, Settings

if TYPE_CHECKING:
    import pytest


#: Pytest's words for a boolean, which mean no path, and no symbol of a formula.
_BOOLEANS = ("true", "false", "yes", "no", "on", "off")


def settings_of(given: Mapping[str, Given], root: Path) -> Settings:
    """Returns the values in force; ``root`` has the usual baseline.

    Raises:
        AttnMemError: a value is not one of the option's, or two options contradict each other.
    """
    values = {
        option.name: _value(option, given[option.name]) if option.name in given else option.default
        for option in OPTIONS
    }
    if values["strict"] == "all" and values["disable"]:
        raise AttnMemError(
            "attnmem: strict=all and disable contradict each other; strict=all fails what is not"
            " enforced"
        )
    if values["update"] and values["disable"]:
        raise AttnMemError(
            "attnmem: update and disable contradict each other; what is not measured cannot be"
            " written"
        )
    _check_files(values, root / BASELINE)
    files = {kind: path for kind in FORMATS if (path := values.pop(kind)) is not None}
    return Settings(files=files, **values)


def _value(option: Option, given: Given) -> Any:
    value, _, source = given
    if value == [] and source == option.flag:  # argparse reads --attnmem-tolerance=-- so
        raise AttnMemError(f"{source} has no value; write one in place of --")
    if option.kind == "level" and value not in option.choices:
        found = "no value" if value is NO_VALUE else f"{shown(value)} is not a value"
        raise AttnMemError(f"{source}: {found}; write off, marked or all")
    if option.choices and value not in option.choices:
        raise AttnMemError(f"{source}: {shown(value)} is not one of {', '.join(option.choices)}")
    if option.kind == "flag":
        return value
    boolean = str(value).casefold() in _BOOLEANS and option.kind not in ("text", "choice", "level")
    digits = str(value).isdecimal() and option.kind in ("path", "directory")
    if boolean or digits or not isinstance(value, (str, int, float)):
        raise AttnMemError(f"{source}: expected {option.accepted}, got {shown(value)}")
    if option.kind in ("path", "directory"):
        return _path(option.kind, given)
    try:
        if option.name == "tolerance":
            return parse_tolerance(value)
        if option.name == "values_limit":
            parse_values_limit(str(value))
            return str(value)
        if option.name == "default":
            return _for_every_test(str(value))
    except AttnMemError as error:
        raise AttnMemError(f"{source}: {error}") from error
    return value


def _for_every_test(limit: str) -> BudgetSpec:
    if is_contract(limit):
        raise AttnMemError(
            "a growth contract is for tests that take what it varies; mark them with"
            f" {limit!r:.100}"
        )
    # Whole bytes, as in the marker: a text has no other way to write them.
    return parse((int(limit) if limit.isdecimal() else limit,), {})


def _path(kind: str, given: Given) -> Path:
    text, folder, source = given
    try:
        if "\0" in text:
            raise ValueError("embedded null byte")
        return (_file if kind == "path" else _directory)(folder / text, source)
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        why = getattr(error, "strerror", None) or error
        raise AttnMemError(f"{source}: {why}: {text!r:.80}") from error


def _directory(path: Path, source: str) -> Path:
    """Returns the path of a directory that exists or can be created."""
    if path.exists() and not path.is_dir():
        raise AttnMemError(f"{source}: {path} is a file; name a directory")
    above = next(parent for parent in (path, *path.parents) if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise AttnMemError(f"{source}: {above} cannot be written to; name another directory")
    return path


def _file(path: Path, source: str) -> Path:
    """Returns the path of a file that can be written."""
    if path.is_dir():
        raise AttnMemError(f"{source}: {path} is a directory; name a file in it")
    if path.suffix == ".py":  # most likely a test that was meant to be run
        raise AttnMemError(f"{source}: {path.name} would be overwritten; give a file to write")
    if not path.parent.is_dir():
        raise AttnMemError(f"{source}: there is no directory {path.parent}; create it first")
    return path


def _check_files(values: Mapping[str, Any], usual: Path) -> None:
    """Checks that no option writes a file that another option reads or writes."""
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


def check_rootdir(config: pytest.Config, options: Collection[str]) -> None:
    """Checks that pytest has not looked for its rootdir at the value of one of ``options``.

    Pytest looks for it before it knows the options of plugins: it takes a path after a space, as in
    ``--attnmem-baseline /ci/base.json``, for a path of tests. Another rootdir has another ini file
    and other node IDs, which no entry of a baseline has.

    Raises:
        AttnMemError: it has; the text says how to write the option.
    """
    words = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.invocation_params.args]
    spaced = [
        (option, value)
        for option, value in pairwise(map(str, words))
        if option in options and _exists(config.invocation_params.dir / value)
    ]
    if not spaced:
        return
    paths = config.known_args_namespace.file_or_dir
    found = _rootdir(config, [*paths, *(value for _, value in spaced)])
    if found != (meant := _rootdir(config, paths)):
        option, value = spaced[0]
        raise AttnMemError(
            f"{option} {value}: pytest takes a path after a space for one of tests, and would run"
            f" with {_shown(*found)}, not with {_shown(*meant)}; write"
            f" {shlex.quote(f'{option}={value}')}"
        )


def _exists(path: Path) -> bool:
    with suppress(OSError, ValueError):  # a name that is too long, or has a NUL
        return path.exists()
    return False


def _rootdir(config: pytest.Config, paths: list[str]) -> tuple[Path, Path | None]:
    """Returns the rootdir and the ini file that pytest finds for tests at ``paths``."""
    known = config.known_args_namespace
    root, ini, *_ = determined(
        inifile=known.inifilename,
        override_ini=known.override_ini,
        args=paths,
        rootdir_cmd_arg=known.rootdir or None,
        invocation_dir=config.invocation_params.dir,
    )
    return root, ini


def determined(**arguments: Any) -> tuple[Any, ...]:
    """Returns the rootdir, the ini file and its values, as pytest determines them."""
    from _pytest.config.findpaths import determine_setup  # pytest offers no public function

    taken = inspect.signature(determine_setup).parameters  # versions of pytest differ
    known: dict[str, Any] = {name: arguments.get(name) for name in taken}
    return determine_setup(**known)


def _shown(root: Path, ini: Path | None) -> str:
    return f"rootdir {root} and {f'{ini.name} of {ini.parent}' if ini else 'no ini file'}"
