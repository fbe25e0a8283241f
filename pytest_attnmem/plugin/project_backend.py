"""The backend that a project asks for in its ini file, read without a session."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .option_values import determined
from .options import OPTIONS

_FLAG = next(option.flag for option in OPTIONS if option.name == "backend")


def given_backend(words: Sequence[str]) -> str:
    """Returns the last value of ``--attnmem-backend`` in pytest's words; empty if there is none."""
    found = ""
    for word, after in pairwise([*words, ""]):
        name, _, value = word.partition("=")
        if name == _FLAG:
            found = value or after
    return found


def project_backend(folder: Path, words: Sequence[str]) -> str:
    """Returns the backend of the ini file, or of its ``addopts``, for pytest in a folder.

    Empty if neither names one. ``words`` are pytest's, of which those that exist are tests.
    """
    tests = [str(folder / word.partition("::")[0]) for word in words if not word.startswith("-")]
    _, _, values, *_ = determined(args=tests, invocation_dir=folder)
    added = _value(values, "addopts")
    given = given_backend(added if isinstance(added, list) else shlex.split(str(added)))
    return given or str(_value(values, "attnmem_backend"))


def _value(values: dict[str, Any], name: str) -> Any:
    found = values.get(name, "")
    return getattr(found, "value", found)  # versions of pytest differ
