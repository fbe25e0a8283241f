"""CUDA memory as PyTorch's caching allocator counts it (``torch.cuda.memory_stats``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Recorder
from ..nulldevice.launch import present
from .allocator_counters import CounterGauge
from .autograd_thread import Engine
from .tracing.cuda_history import NEEDED, CudaMemoryHistory
from .tracing.dispatch_tracker import Tracker, raised_at
from .warm_up import matrix_product

_WANTED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")


class Cuda:
    """One CUDA (or ROCm) device."""

    name = "cuda"
    computes = True

    def __init__(
        self,
        index: int,
        cuda: Any = torch.cuda,
        exercise: Callable[[str, torch.dtype], None] = matrix_product,
    ) -> None:
        self._cuda = cuda
        self._exercise = exercise
        self._index = index
        self.device = f"cuda:{index}"
        self._engine: Engine | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """``sm90`` and ``cuda``; ``rocm`` and ``cuda`` where that is what answers."""
        if torch.version.hip:
            return ("rocm", "cuda")
        major, minor = self._cuda.get_device_capability(self._index)
        return (f"sm{major}{minor}", "cuda")

    @property
    def symbols(self) -> Mapping[str, int]:
        """None: formulas read nothing of the device."""
        return {}

    def prime(self) -> int:
        """Create the context, and the libraries' handles and workspaces on both threads."""
        self._cuda.init()
        before = self._cuda.memory_allocated(self._index)
        self._exercise(self.device, torch.float32)
        for dtype in (torch.float16, torch.bfloat16):
            with suppress(RuntimeError):  # an old device may have no product of that type
                self._exercise(self.device, dtype)
        if self._cuda is torch.cuda:
            self._engine = Engine(self.device)
        self.synchronize()
        return int(self._cuda.memory_allocated(self._index) - before)

    def gauge(self) -> Recorder:
        """The allocator's counters."""
        allocator = self._cuda.get_allocator_backend()
        uncounted = ""
        if allocator != "native":
            uncounted = f"requested bytes are not counted under {allocator}; metric='allocated' is"
        return CounterGauge(self, uncounted)

    def forget(self) -> None:
        """Nothing: counters remember nothing."""

    def tracer(self) -> Recorder:
        """The allocator's own history; where torch keeps none, the dispatcher's view."""
        memory = self._cuda.memory
        if all(hasattr(memory, name) for name in NEEDED):
            return CudaMemoryHistory(self._index, memory)
        return Tracker()

    def out_of_memory(self, error: BaseException) -> str | None:
        """``tried to allocate 20.00 GiB at attn.py:5``, when the allocator could not."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        wanted = _WANTED.search(str(error))
        what = f"tried to allocate {wanted[1]}" if wanted else "an allocation was refused"
        return what + raised_at(error)

    def statistics(self) -> Mapping[str, Any]:
        """Every counter of the device."""
        statistics: Mapping[str, Any] = self._cuda.memory_stats(self._index)
        return statistics

    def reset_peaks(self) -> None:
        """Bring every peak down to its current level."""
        self._cuda.reset_peak_memory_stats(self._index)

    def synchronize(self) -> None:
        """Wait for all streams of the device, and for autograd to let go of what it ran there."""
        if self._engine is not None:
            self._engine.settle()
        self._cuda.synchronize(self._index)

    def empty_cache(self) -> None:
        """Give cached segments back to the device."""
        self._cuda.empty_cache()


def open_backend(argument: str, cuda: Any = torch.cuda) -> Cuda:
    """Return the CUDA device of that number, or the current one.

    Raises:
        BackendUnavailable: there is none; the text says why.
    """
    check(argument, cuda)
    return Cuda(int(argument) if argument else cuda.current_device(), cuda)


def check(argument: str, cuda: Any = torch.cuda) -> None:
    """Check that a CUDA device of that number exists, without using it.

    Raises:
        BackendUnavailable: there is none; the text says why.
    """
    if cuda is torch.cuda and (null := present()):
        raise BackendUnavailable(
            f"backend 'cuda' cannot measure here: the device is null:{null}, not a GPU"
        )
    if not cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = (
            "no device is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES)"
            if built
            else f"torch {torch.__version__} was built without CUDA"
        )
        raise BackendUnavailable(f"backend 'cuda' cannot measure here: {why}")
    count = cuda.device_count()
    if argument and not (argument.isdecimal() and int(argument) < count):
        raise BackendUnavailable(
            f"backend 'cuda' has no device {argument!r}; expected a number below {count}"
        )
