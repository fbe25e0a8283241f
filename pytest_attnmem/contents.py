"""The bytes of a file that a user names, read and written whole."""

from __future__ import annotations

import errno
import glob
import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import AttnMemError


def contents(path: Path) -> bytes:
    """Returns the bytes of a file.

    Raises:
        OSError: the file cannot be read, or is a device such as ``/dev/zero``, which has no end.
    """
    with path.open("rb") as file:
        if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a device; name a file")
        return file.read()


def json_of(path: Path, remedy: str = "") -> Any:
    """Returns the value of a JSON file.

    Raises:
        AttnMemError: the file cannot be read, or is not JSON; then ``remedy`` ends the text.
    """
    try:
        return json.loads(contents(path).decode("utf-8"))
    except OSError as error:
        raise AttnMemError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise AttnMemError(f"cannot read {path}: it is not JSON: {error}{remedy}") from error


def replace(path: Path, data: bytes) -> None:
    """Replaces the file in one step: a reader sees the old file or the new one.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    prefix = f".{path.name}."
    temporary = f"{glob.escape(prefix)}{'?' * 8}.tmp"  # not those of another file
    for left in path.parent.glob(temporary):  # left by a session that was killed
        with suppress(OSError):
            left.unlink()
    descriptor, name = tempfile.mkstemp(".tmp", prefix, path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode(path))
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def _mode(path: Path) -> int:
    """Returns the old file's permissions, or those of any new file."""
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o7777
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Writes the new name to the disk, where the system can synchronise folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
