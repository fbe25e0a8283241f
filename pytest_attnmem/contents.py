"""The bytes of a file that a user names."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def contents(path: Path) -> bytes:
    """Returns the bytes of a file.

    Raises:
        OSError: the file cannot be read, or is a device such as ``/dev/zero``, which has no end.
    """
    with path.open("rb") as file:
        if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a device; name a file")
        return file.read()
