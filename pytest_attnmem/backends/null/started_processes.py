"""Has the processes that a program starts compute values as it does, and count their memory.

They inherit the null device by their environment, however they are started: by ``multiprocessing``,
``subprocess`` or ``torchrun``. ``startup/sitecustomize.py``, which Python runs first, prepares each
that imports torch. A process that is not Python's, or isolated, reads NaN.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

from ...errors import BackendUnavailable
from ...nulldevice.launch import active
from .process_peaks import FOLDER, PeaksLeft
from .program_peaks import ProgramPeaks

_PATH: Final = "PYTHONPATH"
_STARTUP: Final = str(Path(__file__).parent / "startup")
_LIMIT: Final = "ATTNMEM_NULL_VALUES_LIMIT"
_MUST_KNOW: Final = "ATTNMEM_NULL_MUST_KNOW"


def follow_processes(values_limit: int, must_know: bool) -> None:
    """Prepares each process that is started from now on."""
    os.environ[_LIMIT] = str(values_limit)
    os.environ[_MUST_KNOW] = str(int(must_know))
    paths = os.environ.get(_PATH)
    if paths is None or _STARTUP not in paths.split(os.pathsep):
        os.environ[_PATH] = _STARTUP if not paths else f"{_STARTUP}{os.pathsep}{paths}"


def begin() -> None:
    """Prepares this process, which has imported torch, as the one that started it was."""
    from .program import peaks, prepare

    if not active() or torch.version.cuda is None or _LIMIT not in os.environ:
        return
    with suppress(BackendUnavailable):  # of another torch, for which nobody can note operators
        prepare(int(os.environ[_LIMIT]), must_know=os.environ[_MUST_KNOW] == "1")
        if FOLDER in os.environ:
            kept = ProgramPeaks()
            kept.watch()
            PeaksLeft(lambda: peaks(kept), own=True)
