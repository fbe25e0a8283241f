"""A lock between processes, which the system takes back from one that dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import AttnMemError

#: How long another process may keep it. Whoever has it writes a small file.
PATIENCE_S = 30.0
_PAUSE_S = 0.01


@contextmanager
def locked(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Have the file ``path``, which is made and removed, to oneself.

    The lock is on the open file, not that it exists: one that is left behind locks nobody out.

    Raises:
        AttnMemError: another process kept it for longer than that.
        OSError: it cannot be made.
    """
    descriptor = _acquire(path, time.monotonic() + patience_s)
    try:
        yield
    finally:
        with suppress(OSError):  # before it is let go of: whoever waits sees that it is gone
            os.unlink(path)
        os.close(descriptor)
        with suppress(OSError):  # where what is open cannot be removed
            if sys.platform == "win32":
                os.unlink(path)


def _acquire(path: Path, until: float) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if _take(descriptor) and _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)
        if time.monotonic() > until:
            raise AttnMemError(f"another process keeps {path} locked; try again")
        time.sleep(_PAUSE_S)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether that is still the file of this name, and no other was made meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _take(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
