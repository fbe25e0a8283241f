"""The profilers of PyTorch, used as a source of the CPU allocator's events.

The allocator reports each event to them, scratch inside kernels included. The legacy profiler is
the cheapest by far and prints nothing; it is deprecated, so Kineto's is the fallback behind the
same two functions. Each sees only the thread that starts it.

The allocator tells the size of a block that is freed only if it noted it. It notes a block while a
profiler is on, and forgets one that is freed meanwhile; so a block that was freed while none was on
leaves its size to the next owner of the address. Hence :func:`note_all_blocks`.

No other module uses these private APIs (written against torch 2.13 to 2.15). A known program checks
a profiler before it is used, on every torch.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch._C import _autograd
from torch._C._profiler import ProfilerActivity, _ExperimentalConfig
from torch.autograd import ProfilerConfig, ProfilerState, profiler  # type: ignore[attr-defined]

from ..errors import BackendUnavailable
from ..units import shown
from .autograd_engine import running_node
from .call_watch import CallWatch

#: The functions that torch's profilers call to start, in their own modules; ours calls the
#: originals.
_PROFILER_STARTS = (
    (profiler, "_prepare_profiler"),
    (profiler, "_enable_profiler"),
    (getattr(torch.autograd, "profiler_legacy", None), "_enable_profiler_legacy"),
)
_EXCHANGED = "the profiler of this thread was exchanged meanwhile"


def in_backward() -> bool:
    """Returns True inside a backward pass, where autograd's engine swaps the thread's profiler.

    A profiler that is started or stopped there leaves its callbacks behind until the process ends.
    """
    return running_node() is not None


def is_profiling() -> bool:
    """Returns True if a profiler of any kind is on in this thread."""
    return bool(_autograd._profiler_enabled())


def profiler_watch() -> CallWatch:
    """Returns what notices a profiler that the test starts, so that ours can stop first."""
    return CallWatch(_PROFILER_STARTS)


class Heard(NamedTuple):
    """The allocator's events on one thread."""

    sizes: list[int]
    """In bytes and in order; a free is negative."""
    problem: str | None
    """The reason why some may be missing."""
    events: Sequence[Any] = ()
    """The profiler's events of these sizes, which know their time."""
    mark: Any = None
    """The profiler's event of its start."""


class Profiler:
    """A source of the CPU allocator's events on this thread."""

    one_a_thread = False
    """True if each thread can have one at a time, and its events know their time."""

    def start(self) -> None:
        """Begins to listen."""
        raise NotImplementedError

    def stop(self) -> Heard:
        """Returns the events since ``start``."""
        raise NotImplementedError


def _of_memory(kind: Any) -> Any:
    return ProfilerConfig(kind, False, True, False, False, False, _ExperimentalConfig())


class LegacyProfiler(Profiler):
    """``torch.autograd.profiler_legacy`` without its record functions: 2 µs, and 2 µs an event."""

    one_a_thread = True

    def start(self) -> None:
        """Begins to listen."""
        _autograd._enable_profiler_legacy(_of_memory(ProfilerState.CPU))
        _autograd._enable_record_function(False)

    def stop(self) -> Heard:
        """Returns the events since ``start``."""
        try:
            lists = _autograd._disable_profiler_legacy()
        except RuntimeError:  # no profiler is on, or a profiler of another kind
            return Heard([], _EXCHANGED)
        finally:
            _autograd._enable_record_function(True)
        # A list begins with the mark that enabling makes, unless another profiler was on.
        marks = [events[0] for events in lists if events and events[0].name() == "__start_profile"]
        problem = None if marks else _EXCHANGED
        allocating = [
            (sizes, events)
            for events in lists
            if any(sizes := [event.cpu_memory_usage() for event in events])
        ]
        if len(allocating) > 1:
            problem = f"{len(allocating)} threads allocated, and their order is not known"
        sizes, events = allocating[0] if allocating else ([], [])
        return Heard(sizes, problem, events, marks[0] if marks else None)


class KinetoProfiler(Profiler):
    """``torch.profiler`` with only its allocator events: the fallback, about 14 µs an event."""

    def start(self) -> None:
        """Begins to listen."""
        config = _of_memory(ProfilerState.KINETO)
        activities = {ProfilerActivity.CPU}
        _autograd._prepare_profiler(config, activities)
        _autograd._enable_profiler(config, activities)

    def stop(self) -> Heard:
        """Returns the events since ``start``."""
        try:
            result = _autograd._disable_profiler()
        except RuntimeError:
            return Heard([], _EXCHANGED)
        events = [event for event in result.events() if event.name() == "[memory]"]
        events.sort(key=lambda event: event.start_ns())
        sizes = [event.nbytes() for event in events if event.device_type().name == "CPU"]  # type: ignore[attr-defined]
        return Heard(sizes, None)


#: The flag of c10/core/CPUAllocator.cpp that has the allocator note every block, as its library
#: names it: PyTorch's own builds, those with gflags, and those for Windows.
_FLAG: Final = "FLAGS_caffe2_report_cpu_memory_usage"
_FLAGS: Final = (_FLAG, f"_ZN3fLB{len(_FLAG)}{_FLAG}E", f"?{_FLAG}@@3_NA")
#: Its functions that return the list of blocks and add a block to it, for Itanium's C++ and MSVC's.
_LIST: Final = (
    "_ZN3c1025profiledCPUMemoryReporterEv",
    "?profiledCPUMemoryReporter@c10@@YAAEAVProfiledCPUMemoryReporter@1@XZ",
)
_ADD: Final = (
    "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm",
    "?New@ProfiledCPUMemoryReporter@c10@@QEAAXPEAX_K@Z",
)
_LIBRARIES: Final = ("libc10.so", "libc10.dylib", "c10.dll")


def note_all_blocks() -> None:
    """Has the CPU allocator note all blocks from now on, whether or not a profiler is on.

    Then a profiler hears the size of every block that is freed in a window, as the level of a
    device's allocator falls by it. Older blocks are noted too if a tensor of Python's has them;
    those of C++ alone, such as what autograd saved before, are freed unheard.

    Raises:
        BackendUnavailable: this torch has no such flag.
    """
    library, flag = _library_and_flag()
    if flag.value:
        return
    older = [torch.UntypedStorage(1, device="cpu")]
    flag.value = True
    atexit.register(setattr, flag, "value", False)  # or the end would warn of older blocks
    _note(library, _blocks())
    with _silent_stderr():  # it warns of the first block that is freed and was not noted
        older.clear()


def _note(library: ctypes.CDLL, blocks: Mapping[int, int]) -> None:
    """Adds blocks, by address and with their bytes, to the allocator's list."""
    blocks_of = next((library[name] for name in _LIST if hasattr(library, name)), None)
    add = next((library[name] for name in _ADD if hasattr(library, name)), None)
    if blocks_of is None or add is None:
        return
    blocks_of.restype = ctypes.c_void_p
    add.restype, add.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    noted = blocks_of()
    for address, nbytes in blocks.items():
        add(noted, address, nbytes)


def _blocks() -> dict[int, int]:
    """Returns the blocks of all plain tensors that Python knows: address → bytes."""
    kinds = (torch.Tensor, torch.nn.Parameter)
    found = {}
    with torch.DisableTorchFunction():
        for tensor in [one for one in gc.get_objects() if type(one) in kinds]:
            with suppress(RuntimeError):  # a sparse tensor, or one of a transform, has no storage
                if tensor.is_cpu and (storage := tensor.untyped_storage()).nbytes():
                    found[storage.data_ptr()] = storage.nbytes()
    return found


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards the text that C++ code writes to file descriptor 2."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def _library_and_flag() -> tuple[ctypes.CDLL, ctypes.c_bool]:
    folder = Path(torch.__file__).parent / "lib"
    for path in (folder / name for name in _LIBRARIES):
        for name in _FLAGS if path.exists() else ():
            with suppress(ValueError):  # no such name
                library = ctypes.CDLL(str(path))
                return library, ctypes.c_bool.in_dll(library, name)
    raise BackendUnavailable(
        f"backend 'cpu' cannot measure here: torch {torch.__version__} has no flag {_FLAG}, without"
        " which its allocator does not tell what is freed"
    )


#: The sizes that the known program allocates and, negative, frees.
_RIGHT: Final = "48 -112 80 -48 16 -80 -16"


def default_profiler() -> type[Profiler]:
    """Returns the first profiler that is right about a known program: the legacy, else Kineto's.

    The program takes 20 µs, and allocates without operators: no mode and no default sees it.

    Raises:
        BackendUnavailable: this torch has neither.
    """
    busy = is_profiling() or in_backward()  # a thread of its own has room for the legacy profiler
    reports = []
    for found in (LegacyProfiler,) if busy else (LegacyProfiler, KinetoProfiler):
        report = _in_thread(found) if busy else _report(found)
        if report == _RIGHT:
            return found
        reports.append(f"{found.__name__} reports {report}")
    raise BackendUnavailable(
        f"backend 'cpu' cannot measure here: no profiler of torch {torch.__version__} reports"
        f" {_RIGHT} for a program of these sizes; {', '.join(reports)}"
    )


def _report(found: type[Profiler]) -> str:
    """Returns the sizes that a profiler reports for the known program, or why it reports none."""
    listener = found()
    older = [torch.UntypedStorage(112, device="cpu")]
    try:
        listener.start()
        _known_program(older)
        heard = listener.stop()
    except Exception as error:  # the API is another one
        with suppress(Exception):
            if is_profiling():
                listener.stop()
        return shown(error, 100)
    return heard.problem or " ".join(str(size) for size in heard.sizes if size) or "nothing"


def _in_thread(found: type[Profiler]) -> str:
    reports: list[str] = []
    thread = threading.Thread(target=lambda: reports.append(_report(found)))
    thread.start()
    thread.join()
    return "".join(reports)


def _known_program(older: list[torch.UntypedStorage]) -> None:
    first = torch.UntypedStorage(48, device="cpu")
    older.clear()
    second = torch.UntypedStorage(80, device="cpu")
    del first
    third = torch.UntypedStorage(16, device="cpu")
    del second
    del third
