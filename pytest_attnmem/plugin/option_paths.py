"""The checks of paths that options name; ``source`` is the option, for the message."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import AttnMemError


def directory(path: Path, source: str) -> Path:
    """Returns the path of a directory that exists or can be created.

    Raises:
        AttnMemError: the path is a file, or cannot be written to.
    """
    if path.exists() and not path.is_dir():
        raise AttnMemError(f"{source}: {path} is a file; name a directory")
    above = next(parent for parent in (path, *path.parents) if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise AttnMemError(f"{source}: {above} cannot be written to; name another directory")
    return path


def file(path: Path, source: str) -> Path:
    """Returns the path of a file that can be written.

    Raises:
        AttnMemError: the path is a directory, is in none, or is a Python file.
    """
    if path.is_dir():
        raise AttnMemError(f"{source}: {path} is a directory; name a file in it")
    if path.suffix == ".py":  # most likely a test that was meant to be run
        raise AttnMemError(f"{source}: {path.name} would be overwritten; give a file to write")
    if not path.parent.is_dir():
        raise AttnMemError(f"{source}: there is no directory {path.parent}; create it first")
    return path
