"""The end of a process of ours, which frees no object by itself."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress


def leave(code: int) -> None:
    """Ends the process with this code; returns while threads of the program run.

    The interpreter frees each object of torch and of a model before it ends, which takes a second;
    the operating system frees the process as a whole. Functions registered by ``atexit`` run.
    """
    if any(not thread.daemon for thread in threading.enumerate()[1:]):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
