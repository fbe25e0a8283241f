"""Reports: the results of a session as text in one of several formats."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..contents import replace
from ..errors import AttnMemError
from ..units import shown

if TYPE_CHECKING:
    from .summary import Summary

#: The formats of a report: modules of this folder with a ``render``, which returns the text.
KINDS: Final = ("csv", "html", "json", "markdown")

#: The folder takes no other file, or the file is mounted by itself: it is written in place.
_NO_NEW_FILE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV})


def render(kind: str, summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of a report."""
    return str(import_module(f".{kind}", __name__).render(summary, environment))


def write(path: Path, text: str | bytes) -> None:
    """Writes a report to a file, or to standard output if the path is ``-``.

    An earlier report stays whole if the new one cannot be written.

    Raises:
        AttnMemError: the file cannot be written.
    """
    # As JSON escapes what UTF-8 cannot encode.
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    try:
        if path == Path("-"):
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        else:
            _write(path, data)
    except OSError as error:
        if path == Path("-"):
            raise
        raise AttnMemError(f"cannot write {path}: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    whole = Path(os.path.realpath(path))  # a link stays a link
    if not whole.exists() or whole.is_file():
        try:
            replace(whole, data)
            return
        except OSError as error:
            if error.errno not in _NO_NEW_FILE:
                raise
    path.write_bytes(data)


def check_output_path(option: str, path: str | None) -> None:
    """Checks that a command can create its file, before work that may take hours.

    Without a path, or with ``-`` for standard output, there is nothing to create.

    Raises:
        AttnMemError: the path is a directory or not a valid name, or its directory is missing.
    """
    if not path or path == "-":
        return
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
