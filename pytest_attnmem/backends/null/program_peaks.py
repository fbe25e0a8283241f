"""The peaks of a program, which may reset them, and of the processes that it starts.

Each of these leaves its peaks in a folder. By line of the program, the allocator's history has the
memory at a peak.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import current_process, parent_process
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from typing import Any, Final, Literal

import torch

from ..counter_backend import COUNTERS, reset_watch
from ..tracing.tensor_origin import user_frame


class ProgramPeaks:
    """The peaks of each device since the start of the program."""

    def __init__(self) -> None:
        self._highest: dict[str, dict[str, int]] = {}
        self.uncounted = ""
        """The reason why there are no peaks; empty if they are counted."""

    def keep(self) -> None:
        """Keeps the peaks before the program resets them, for the rest of the process."""
        reset_watch().start(self._save)

    def read(self) -> dict[str, dict[str, int]]:
        """Returns the peaks in bytes, by device and kind, of the devices that were used."""
        self._save()
        return self._highest

    def _save(self) -> None:
        if not torch.cuda.is_initialized():
            return
        for index in range(torch.cuda.device_count()):
            try:
                statistics = torch.cuda.memory_stats(index)
            except RuntimeError:  # of an allocator of the program's own
                allocator = torch.cuda.get_allocator_backend()
                self.uncounted = f"the program's own allocator ({allocator}) counts no memory"
                return
            if not statistics.get("reserved_bytes.all.peak"):
                continue
            highest = self._highest.setdefault(f"cuda:{index}", {})
            for counter in COUNTERS.values():
                peak = int(statistics[f"{counter}.all.peak"])
                highest[counter] = max(peak, highest.get(counter, 0))


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
        found = [one for one in left if one["peaks"]]
        found.sort(key=lambda one: (len(one["name"]), one["name"]))  # rank 2 before rank 10
        return found, len(others)


#: Memory that a thread of autograd's engine allocated, which runs no line of the program.
BACKWARD = "backward"


def record_history(enabled: Literal["all"] | None, **options: Any) -> None:
    """Makes the allocator record its allocations, or stop for None; PyTorch has the options."""
    torch.cuda.memory._record_memory_history(enabled, **options)


def recorded() -> list[list[dict[str, Any]]]:
    """Returns the allocations and frees of each device, in order."""
    traces: list[list[dict[str, Any]]] = torch.cuda.memory._snapshot()["device_traces"]
    return traces


def held_at_peak(index: int, peak: int) -> dict[str, int]:
    """Returns the bytes by line of the program when ``peak`` bytes were alive on a device.

    It is the last such moment. Empty if the history has none: it was not recorded, or a program
    recorded another.
    """
    traces = recorded()
    return at_peak(traces[index] if index < len(traces) else (), peak)


def at_peak(entries: Sequence[Mapping[str, Any]], peak: int) -> dict[str, int]:
    """Returns the bytes by line at the last moment at which ``peak`` bytes were alive."""
    alive: dict[int, Mapping[str, Any]] = {}
    total, last = 0, -1
    for position, entry in enumerate(entries):
        total += _changed(alive, entry)
        if total == peak and entry["action"] == "alloc":
            last = position
    alive.clear()
    for entry in entries[: last + 1]:
        _changed(alive, entry)
    held: Counter[str] = Counter()
    for entry in alive.values():
        frames = [(f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())]
        held[user_frame(frames).where or BACKWARD] += entry["size"]
    return dict(held.most_common())


def _changed(alive: dict[int, Mapping[str, Any]], entry: Mapping[str, Any]) -> int:
    """Follows an allocation or a free; returns the bytes that it adds."""
    if entry["action"] == "alloc":
        alive[entry["addr"]] = entry
        return int(entry["size"])
    if entry["action"] == "free_completed":
        freed = alive.pop(entry["addr"], None)
        return -int(freed["size"]) if freed else 0
    return 0
