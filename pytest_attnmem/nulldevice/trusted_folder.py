"""The folders that a library is preloaded from: nobody else may write to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import BackendUnavailable
from ..units import shown


def check_trusted(path: Path) -> None:
    """Checks that the file or folder, and a link to it, belong to this user or to root.

    Raises:
        BackendUnavailable: they belong to another user, or others may write to them.
    """
    for found in (path.lstat(), path.stat()):
        if found.st_uid not in (os.geteuid(), 0):
            raise _refused(path, f"belongs to user {found.st_uid}")
        writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if writable and not stat.S_ISLNK(found.st_mode):
            raise _refused(path, "can be written by others", f"chmod -R go-w {path}, or ")


def _refused(path: Path, why: str, remedy: str = "") -> BackendUnavailable:
    return BackendUnavailable(
        f"the null device loads no library from {shown(str(path), 300)}, which {why}:"
        f" {remedy}set XDG_CACHE_HOME to a folder of your own"
    )


def make_trusted(folder: Path) -> None:
    """Makes the folder and the one above it, which other users may not write to.

    Raises:
        OSError: they cannot be made.
    """
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        if not one.is_dir():
            one.mkdir(exist_ok=True)
            one.chmod(0o700)
