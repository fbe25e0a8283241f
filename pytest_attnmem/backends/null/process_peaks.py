"""The peaks of the processes that a program starts, which each of them leaves in a folder."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import current_process, parent_process
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from typing import Any, Final

import torch

#: The folder; ``processes.c`` notes there which processes use a device.
FOLDER: Final = "ATTNMEM_NULL_PROCESSES"


class PeaksLeft:
    """Leaves the peaks of this process when it ends, if it is not the first one (``own``).

    A fork of it by ``multiprocessing`` does the same.
    """

    def __init__(self, found: Callable[[], Mapping[str, Any]], *, own: bool) -> None:
        self._found = found
        self._own = own
        atexit.register(self._leave)
        register_after_fork(self, PeaksLeft._forked)

    def _forked(self) -> None:
        self._own = not torch.cuda.is_initialized()
        if self._own:
            Finalize(None, self._leave, exitpriority=0)  # it ends without ``atexit``
        else:  # its counters go on from those of the process that it is a copy of
            Path(os.environ[FOLDER], str(os.getpid())).touch()

    def _leave(self) -> None:
        folder = Path(os.environ.get(FOLDER, ""))
        if not (self._own and folder.is_absolute() and folder.is_dir()):
            return
        text = json.dumps({"name": _name(), **self._found()})
        partial = folder / f"{os.getpid()}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.rename(folder / f"{os.getpid()}.json")


def _name() -> str:
    """Returns the name of this process for a reader: its program's, and which rank it is."""
    name = current_process().name if parent_process() else os.path.basename(sys.argv[0])
    rank = os.environ.get("RANK")
    return f"{name}, rank {rank}" if rank else name


class StartedProcesses:
    """Those that this process starts."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="attnmem-processes-"))
        os.environ[FOLDER] = str(self._folder)

    def collect(self) -> tuple[list[dict[str, Any]], int]:
        """Returns what processes left that ended and used a device, and the number of others.

        Removes the folder.
        """
        paths = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        left = [json.loads(path.read_text("utf-8")) for path in paths if path.suffix == ".json"]
        ended = {path.stem for path in paths if path.suffix == ".json"} | {str(os.getpid())}
        others = {path.name for path in paths if not path.suffix} - ended
        shutil.rmtree(self._folder, ignore_errors=True)
        return sorted((one for one in left if one["peaks"]), key=_of_name), len(others)


def _of_name(one: Mapping[str, Any]) -> tuple[int, str]:
    return len(one["name"]), one["name"]  # rank 2 before rank 10
