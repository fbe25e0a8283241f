"""A check of the files that a command is going to write, before work that may take hours."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import AttnMemError
from ..units import shown


def check_output_path(option: str, path: str) -> None:
    """Check that a file can be created at the path.

    Raises:
        AttnMemError: the path is a directory or not a valid name, or its directory is missing.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        why = getattr(error, "strerror", None) or error
        raise AttnMemError(f"--{option}: {why}: {shown(path)}; name another file") from error
    folder = Path(path).parent
    if os.path.isdir(path):
        raise AttnMemError(f"--{option}: {path} is a directory; name a file in it")
    if not os.path.isdir(folder):
        raise AttnMemError(f"--{option}: there is no directory {folder}; create it first")
