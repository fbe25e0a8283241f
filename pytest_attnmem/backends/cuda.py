"""CUDA memory as PyTorch's caching allocator counts it (``torch.cuda.memory_stats``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch

from ..errors import BackendUnavailable, DeviceMissing
from ..measurement.protocol import Recorder
from ..nulldevice.launch import present
from .autograd_engine import in_backward
from .counter_backend import CounterBackend
from .program_counters import ProgramCounters, program_counters
from .tracing.cuda_history import NEEDED, CudaMemoryHistory
from .tracing.dispatch_tracker import raised_at


class _Step(torch.autograd.Function):
    """A step of a backward pass that allocates nothing, and calls a function."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, call: Callable[[], object]) -> torch.Tensor:
        """Returns the tensor."""
        ctx.call = call
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[None, None]:
        """Returns no gradient."""
        ctx.call()
        return None, None


class Engine:
    """The thread of one device.

    ``backward`` returns when the last gradient is computed. A moment later the thread frees the
    tensors of its last step (``Engine::thread_main`` of torch/csrc/autograd/engine.cpp: the task
    is released after its graph is marked completed), so a level read at once may be too high.
    """

    def __init__(self, device: str, on_thread: Callable[[], object] = lambda: None) -> None:
        """Each :meth:`settle` calls ``on_thread`` on the thread."""
        with torch.inference_mode(False), torch.enable_grad():
            self._leaf = torch.empty(0, device=device, requires_grad=True)  # of no bytes
            self._end: torch.Tensor = _Step.apply(self._leaf, on_thread)  # type: ignore[no-untyped-call]
            self._gradient = torch.empty(0, device=device)

    def settle(self) -> None:
        """Waits until the thread has released all earlier steps: it takes steps one by one."""
        if not in_backward():  # not from inside a backward pass
            engine: Any = torch.autograd.Variable._execution_engine
            # Without torch.autograd.backward, which transforms and batched gradients refuse.
            engine.run_backward(
                (self._end,),
                (self._gradient,),
                True,
                False,
                (self._leaf,),
                allow_unreachable=True,
                accumulate_grad=False,
            )


_WANTED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")


class Cuda(CounterBackend):
    """One CUDA (or ROCm) device."""

    name = "cuda"

    def __init__(self, index: int, cuda: Any = torch.cuda) -> None:
        super().__init__(cuda, index)
        self.device = f"cuda:{index}"
        self._engine: Engine | None = None
        self._counters: ProgramCounters | None = None
        self._cleared = times_cleared()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns ``sm90`` and ``cuda``; under ROCm, ``rocm`` and ``cuda``."""
        if torch.version.hip:
            return ("rocm", "cuda")
        major, minor = self._api.get_device_capability(self._index)
        return (f"sm{major}{minor}", "cuda")

    def prime(self) -> int:
        """Creates the context, and the libraries' handles and workspaces on both threads."""
        self._api.init()
        if self._api is torch.cuda:
            self._engine = Engine(self.device)
            self._counters = program_counters()
        before = self._allocated()
        self._multiply()
        with self._hiding():
            self.check_counters()
        return self._allocated() - before

    def _multiply(self) -> None:
        """Makes the workspaces that are missing; a program's counters do not show them."""
        with self._hiding():
            self._exercise(self.device, torch.float32)
            for dtype in (torch.float16, torch.bfloat16):
                with suppress(RuntimeError):  # an old device may have no product of that type
                    self._exercise(self.device, dtype)
            self.synchronize()
        self._cleared = times_cleared()

    def _hiding(self) -> AbstractContextManager[None]:
        return nullcontext() if self._counters is None else self._counters.hiding(self._index)

    def statistics(self) -> Mapping[str, Any]:
        """Returns the allocator's own counters, which a program may not see."""
        if self._counters is None:
            return super().statistics()
        return self._counters.statistics(self._index)

    def reset_peaks(self) -> None:
        """Lowers every peak to its current level, but not those that the program sees."""
        if self._counters is None:
            super().reset_peaks()
        else:
            self._counters.lower_peaks(self._index)

    def empty_cache(self) -> None:
        """Gives cached segments back to the device; the program's still count as cached."""
        if self._counters is None:
            super().empty_cache()
        else:
            self._counters.give_back()

    def gauge(self) -> Recorder:
        """Returns a recorder; workspaces that an earlier program freed count in no window."""
        if self._cleared != times_cleared():
            self._multiply()
        return super().gauge()

    @property
    def uncounted(self) -> str:
        """Returns why requested bytes are not counted, under another allocator than torch's own."""
        allocator = self._api.get_allocator_backend()
        if allocator == "native":
            return ""
        return f"requested bytes are not counted under {allocator}; metric='allocated' is"

    def tracer(self) -> Recorder:
        """Returns the allocator's own history; the dispatcher's view where torch keeps none."""
        memory = self._api.memory
        if all(hasattr(memory, name) for name in NEEDED):
            return CudaMemoryHistory(self._index, memory, self.fault_of_dispatcher)
        return super().tracer()

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns ``tried to allocate 20.00 GiB at attn.py:5`` if the allocator refused."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        wanted = _WANTED.search(str(error))
        request = f"tried to allocate {wanted[1]}" if wanted else "an allocation was refused"
        return request + raised_at(error)

    def synchronize(self) -> None:
        """Waits for all streams, and until autograd has released the steps that it ran there."""
        if self._engine is not None:
            self._engine.settle()
        super().synchronize()


def open_backend(argument: str, cuda: Any = torch.cuda) -> Cuda:
    """Returns the CUDA device of that number, or the current one.

    Raises:
        BackendUnavailable: no such device can measure; the text says why.
    """
    check(argument, cuda)
    return Cuda(int(argument) if argument else cuda.current_device(), cuda)


def check(argument: str, cuda: Any = torch.cuda) -> None:
    """Checks that a CUDA device of that number exists, without using it.

    Raises:
        BackendUnavailable: no such device can measure; the text says why.
    """
    if cuda is torch.cuda and (null := present()):
        raise DeviceMissing(
            f"backend 'cuda' cannot measure here: the device is null:{null}, not a GPU"
        )
    if not cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = (
            "no device is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES)"
            if built
            else f"torch {torch.__version__} was built without CUDA"
        )
        raise DeviceMissing(f"backend 'cuda' cannot measure here: {why}")
    count = cuda.device_count()
    if argument and not (argument.isdecimal() and int(argument) < count):
        kind = DeviceMissing if argument.isdecimal() else BackendUnavailable
        raise kind(f"backend 'cuda' has no device {argument!r}; expected a number below {count}")


_CLEAR = "_cuda_clearCublasWorkspaces"


def times_cleared() -> int:
    """Returns the number of times since the first call, in this process."""
    library: Any = torch._C
    clear = getattr(library, _CLEAR, None)
    if clear is None:  # a build without CUDA
        return 0
    if not hasattr(clear, "times"):

        def counted() -> None:
            counted.times += 1  # type: ignore[attr-defined]
            clear()

        counted.times = 0  # type: ignore[attr-defined]
        setattr(library, _CLEAR, counted)
    return int(getattr(library, _CLEAR).times)
