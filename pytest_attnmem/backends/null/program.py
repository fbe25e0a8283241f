"""Runs a Python program on the null device: ``python -m pytest_attnmem.backends.null.program …``.

The program runs in this process, so PyTorch's counters can be read when it ends. The processes that
it starts inherit the null device by their environment, however they are started: by
``multiprocessing``, ``subprocess`` or ``torchrun``. ``startup/sitecustomize.py``, which Python runs
first, prepares each that imports torch, so that it computes values as this one does, and counts its
memory. ``PYTHONPATH`` has that file found, and under ``-I`` and ``-E`` the package's ``.pth`` file
does. A process that is not Python's, or isolated where nothing reads that file, reads NaN.
"""

from __future__ import annotations

import builtins
import json
import os
import runpy
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any, Final

import torch

from ...errors import BackendUnavailable
from ...leave import leave
from ...nulldevice import counts, cudnn
from ...nulldevice.launch import active
from ...nulldevice.torchrun import LONE
from ...program_frames import hide_own_frames
from ...units import format_size
from .built_kernels import refuse_without_kernels
from .compiled_graphs import follow_inductor
from .device_collectives import follow_device_collectives
from .failed_calls import leave_streams, refuse_in_the_program
from .hidden_frames import hide_frames
from .noting import Noting, noting
from .program_peaks import (
    FOLDER,
    PeaksLeft,
    ProgramPeaks,
    StartedProcesses,
    held_at_peak,
    record_history,
)
from .settled_backward import settle_each_pass
from .triton_launches import follow_triton
from .tuning import keep_first_configurations

#: Seconds for autograd's thread to free its graph: PyTorch aborts a process that ends before that,
#: and ``backward()`` is often the last call of a program that computes nothing.
_LAST_MOMENT = 0.05

_PATH: Final = "PYTHONPATH"
_STARTUP: Final = str(Path(__file__).parent / "startup")
#: The folder that the line in ``front.pth`` adds to ``sys.path``; only one that ends as this does.
_START: Final = "ATTNMEM_NULL_START"
_LIMIT: Final = "ATTNMEM_NULL_VALUES_LIMIT"
_MUST_KNOW: Final = "ATTNMEM_NULL_MUST_KNOW"


def prepare(values_limit: int | None, *, must_know: bool = True) -> None:
    """Prepares torch and Triton for the null device; a second call does nothing.

    The values that a program reads are computed on the host, up to ``values_limit`` floating-point
    operations a read; None computes no value. A value that nobody can know is an error if the
    program ``must_know`` it; else a number is NaN.
    """
    if cudnn.stand_in():
        keep_first_configurations()
        leave_streams()
        settle_each_pass()
        if values_limit is not None:
            noted = Noting(values_limit, must_know=must_know)
            noted.start()
            follow_device_collectives(noted)
            hide_frames()
            follow_triton(noted)
            follow_inductor(noted)
            follow_processes(values_limit, must_know)
            refuse_in_the_program()


def follow_processes(values_limit: int, must_know: bool) -> None:
    """Prepares each process that is started from now on."""
    os.environ[_LIMIT] = str(values_limit)
    os.environ[_MUST_KNOW] = str(int(must_know))
    os.environ[_START] = _STARTUP
    paths = os.environ.get(_PATH)
    if paths is None or _STARTUP not in paths.split(os.pathsep):
        os.environ[_PATH] = _STARTUP if not paths else f"{_STARTUP}{os.pathsep}{paths}"


def begin() -> None:
    """Prepares this process, which has imported torch, as the one that started it was."""
    if not active() or torch.version.cuda is None or _LIMIT not in os.environ:
        return
    with suppress(BackendUnavailable):  # of another torch, for which nobody can note operators
        prepare(int(os.environ[_LIMIT]), must_know=os.environ[_MUST_KNOW] == "1")
        if FOLDER in os.environ:
            kept = ProgramPeaks()
            kept.keep()
            PeaksLeft(lambda: peaks(kept), own=True)


def settle() -> None:
    """Waits until autograd is idle; call it last, before the process ends."""
    time.sleep(_LAST_MOMENT)


def peaks(kept: ProgramPeaks) -> dict[str, Any]:
    """Returns the peaks of the program by device, in bytes, and the counters of the runtime.

    If nothing counted them, ``uncounted`` is the reason.
    """
    found = noting()
    return {
        "null_device": counts.counted(),
        "peaks": kept.read(),
        "uncounted": kept.uncounted,
        "unknown_values": found.reads.unknown if found else [],
        "assumed_values": found.reads.assumed if found else [],
    }


def _as_rank() -> None:
    """Makes this process a rank of many, if it was started as one."""
    if LONE in os.environ:
        from ..ranks.lone_rank import be_alone  # a torch may lack torch.distributed

        be_alone()
        record_history("all", context="alloc", stacks="python")  # with the lines of the program


def _held(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what each device of a rank held at its peak, by line of the program."""
    return {
        device: held_at_peak(int(device.partition(":")[2]), peak["requested_bytes"])
        for device, peak in found["peaks"].items()
    }


def main(arguments: Sequence[str]) -> int:
    """Runs ``script.py …``, ``-m module …`` or ``-c code …`` and returns its exit code.

    The first argument is the JSON file for the peaks, or an empty text; the second is the limit on
    the work of a value, in floating-point operations.
    """
    path, limit, *program = arguments
    try:
        refuse_without_kernels()
    except BackendUnavailable as error:
        print(f"attnmem run: {error}", file=sys.stderr)
        return 2
    prepare(int(limit), must_know=False)
    kept = ProgramPeaks()
    kept.keep()
    _as_rank()
    started = StartedProcesses()
    PeaksLeft(lambda: peaks(kept), own=False)
    try:
        _run(program)
        code = 0
    except SystemExit as exit:
        code = _code(exit.code)
    except BaseException as error:
        hide_own_frames(error)
        shown = _of_program(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(shown), shown)
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    sys.stdout.flush()
    found = peaks(kept)
    found["processes"], found["uncounted_processes"] = started.collect()
    if LONE in os.environ:
        found["held"] = _held(found)
    else:
        for line in render(found):
            print(line, file=sys.stderr)
    if path:
        Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    settle()
    return code


def render(found: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines that end a run."""
    where = f"attnmem: null:{found['null_device']['devices']}"
    others, uncounted = found["processes"], found["uncounted_processes"]
    if not found["peaks"] and not others:
        yield f"{where}: {found['uncounted'] or 'nothing was allocated'}"
    yield from _shown(where, found["peaks"])
    for one in others:
        yield from _shown(f"{where}: {one['name']}", one["peaks"])
    if uncounted:
        were = "process was" if uncounted == 1 else "processes were"
        yield f"attnmem: {uncounted} child {were} not counted"
    every = (found, *others)
    yield from dict.fromkeys(line for one in every for line in counts.remarks(one["null_device"]))
    for kind in ("unknown_values", "assumed_values"):
        if values := [value for one in every for value in one[kind]]:
            more = f", and {len(values) - 1} more" if len(values) > 1 else ""
            yield f"attnmem: {values[0]}{more}"


def _shown(where: str, peaks: Mapping[str, Any]) -> Iterator[str]:
    for device, peak in peaks.items():
        sizes = ", ".join(
            f"{format_size(peak[f'{kind}_bytes'])} {kind}"
            for kind in ("requested", "allocated", "reserved")
        )
        yield f"{where}: {device} at its peak {sizes}"


def _run(program: Sequence[str]) -> None:
    if program[0] == "-m":
        sys.argv = [*program[1:]]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    elif program[0] == "-c":
        sys.argv = ["-c", *program[2:]]
        sys.path[0] = ""
        sys.modules["__main__"] = main = ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        FunctionType(compile(program[1], "<string>", "exec"), main.__dict__)()
    else:
        sys.argv = [*program]
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


def _code(value: object) -> int:
    """Returns the exit code of ``sys.exit(value)``."""
    if value is None or isinstance(value, int):
        return int(value or 0)
    print(value, file=sys.stderr)
    return 1


def _of_program(traceback: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the frames that started the program."""
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name != __file__ and "runpy" not in name:
            break
        traceback = traceback.tb_next
    return traceback


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    if LONE in os.environ:  # many ranks run; the process of a single program ends as without us
        leave(exit_code)
    sys.exit(exit_code)
