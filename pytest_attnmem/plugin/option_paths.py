"""The check that a path after a space, the value of an option, does not move pytest's rootdir."""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Collection
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AttnMemError

if TYPE_CHECKING:
    import pytest


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
    from _pytest.config.findpaths import determine_setup  # pytest offers no public function

    known = config.known_args_namespace
    arguments = {
        "inifile": known.inifilename,
        "override_ini": known.override_ini,
        "args": paths,
        "rootdir_cmd_arg": known.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    taken = inspect.signature(determine_setup).parameters  # versions of pytest differ
    root, ini, *_ = determine_setup(**{name: arguments[name] for name in taken})
    return root, ini


def _shown(root: Path, ini: Path | None) -> str:
    return f"rootdir {root} and {f'{ini.name} of {ini.parent}' if ini else 'no ini file'}"
