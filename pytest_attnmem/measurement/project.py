"""The files of the project under test, and those of libraries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: The files of an installed library, of neither, and of the project, in the order of preference.
LIBRARY, OUTSIDE, PROJECT = range(3)

#: The folders of installed libraries.
INSTALLED: Final = ("site-packages", "dist-packages")
#: The folder of Python's own library.
STANDARD: Final = os.path.join(os.path.dirname(os.__file__), "")


class _Project:
    """The project of this process, and the standing of the files that were asked for."""

    def __init__(self) -> None:
        self.root = ""
        self.known: dict[str, int] = {}


_PROJECT = _Project()


def set_root(root: Path | None) -> None:
    """Takes ``root``, which is pytest's rootdir, for the folder of the project."""
    _PROJECT.root = os.path.join(root, "") if root else ""
    _PROJECT.known.clear()


def standing(path: str) -> int:
    """Returns ``LIBRARY``, ``OUTSIDE`` or ``PROJECT``. Without a root, there is no ``OUTSIDE``.

    A virtual environment in the project is a library's place.
    """
    found = _PROJECT.known.get(path)
    if found is None:
        found = _PROJECT.known[path] = _standing(path, _PROJECT.root)
    return found


def in_library(path: str) -> str:
    """Returns the file of a library as it is imported: ``einops/_backends.py``."""
    parts = path.split(os.sep)
    last = max((place for place, part in enumerate(parts) if part in INSTALLED), default=-3)
    return "/".join(parts[last + 1 :] if last >= 0 else parts[-1:])


def _standing(path: str, root: str) -> int:
    inside = bool(root) and path.startswith(root)
    rest = path[len(root) :] if inside else path
    if any(part in INSTALLED for part in rest.split(os.sep)):
        return LIBRARY
    if path.startswith(STANDARD) and not root.startswith(STANDARD):
        return LIBRARY
    return PROJECT if inside or not root else OUTSIDE
