"""The functions of ``torch._C`` that ``torch.cuda`` calls, for the device of this process.

The Python code of ``torch.cuda`` runs as it is, so that what a new PyTorch adds to it works. A few
names stand beside them, where a build without CUDA has something that only looks like it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import torch

from ....certified.certificate import newest_for, packaged
from ....errors import CannotSimulate
from ....torch_releases import Version
from ...autograd_engine import RUN_BACKWARD
from ..attention.sdpa import attention_patches
from ..generators import DefaultGenerator, RandomState, SimulatedGenerator
from ..memory.simulated_device import Device
from ..memory.storages import DeviceStorage
from ..program_errors import at
from ..pytorch_device.accelerator import IN_BAD_FORK
from ..pytorch_device.tensors import TensorMaker
from .absent_calls import absent_calls
from .streams import Event, EventOf, Stream, StreamGraphs, StreamPools, stream_types


def _memory_stats(device: Device) -> dict[str, Any]:
    """Returns the counters that are simulated, nested as PyTorch has them; it knows no others."""
    statistics, peaks = device.statistics, device.peaks()

    def level(kind: str) -> dict[str, Any]:
        found = getattr(statistics, kind)
        return {"all": {"current": found.current, "peak": peaks.get(kind, found.peak)}}

    kinds = ("requested", "allocated", "active", "reserved", "inactive_split")
    return {
        "num_alloc_retries": statistics.alloc_retries,
        "num_ooms": statistics.ooms,
        "num_oom_rejections": statistics.oom_rejections,
        "num_device_alloc": statistics.device_allocs,
        "num_device_free": statistics.device_frees,
        **{f"{kind}_bytes": level(kind) for kind in kinds},
    }


def _of_one_device() -> dict[tuple[Any, str], Any]:
    """Returns the functions by owner and name."""

    def scatter(
        tensor: torch.Tensor, devices: Any, sizes: Any = None, dim: int = 0, streams: Any = None
    ) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.to("cuda").chunk(1, dim))

    ranges = SimpleNamespace(
        rangePushA=lambda _: 0,
        rangePop=lambda: 0,
        rangeStartA=lambda _: 0,
        rangeEnd=lambda _: None,
        markA=lambda _: None,
    )
    return {(torch._C, "_scatter"): scatter, (torch.cuda.nvtx, "_nvtx"): ranges}


class SimulatedVersion(str):
    """A version of CUDA that this build does not have."""

    __slots__ = ()


def build_patches(version: Version) -> dict[tuple[Any, str], Any]:
    """Returns the answers of that version of PyTorch, by owner and name.

    One without rules answers as the newest that has them.
    """
    build = newest_for(version) or [*packaged()][-1]
    cuda, cudnn = SimulatedVersion(build.cuda), _number(build.cudnn, (10_000, 100, 1))
    return {
        (torch.version, "cuda"): torch.version.cuda or cuda,
        (torch.backends.cudnn, "is_available"): lambda: True,
        (torch.backends.cudnn, "version"): lambda: cudnn,
        (torch._C, "_cuda_getCompiledVersion"): lambda: _number(cuda, (1000, 10)),
        (torch._C, "_cuda_isCurrentStreamCapturing"): lambda: False,
        (torch._C, "_cuda_tunableop_is_enabled"): lambda: False,
    }


def _number(version: str, places: tuple[int, ...]) -> int:
    """Returns 92000 for ``9.20.0``, and 13020 for ``13.2``."""
    parts = map(int, version.split("."))
    return sum(part * place for part, place in zip(parts, places, strict=True))


_CUDA: Final = torch.device("cuda")
#: ``cudaErrorInvalidDevice`` and its text, as PyTorch raises it.
_INVALID: Final = "CUDA error: invalid device ordinal"


#: The types of ``torch.cuda`` that C++ code makes on a real device only.
_LEGACY: Final = tuple(
    (f"{name}Tensor", getattr(torch, f"{name}Tensor").dtype)
    for name in (
        *("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool"),
    )
)


class _LegacyType(type):
    """The type of ``torch.cuda.FloatTensor``: it knows its tensors, and makes none."""

    dtype: torch.dtype
    refuse: Callable[[str], CannotSimulate]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is cls.dtype

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise cls.refuse(f"torch.cuda.{cls.__name__}{at()} cannot be simulated; use torch.tensor")


class CudaFunctions:
    """What ``torch.cuda`` finds below it, with the current stream of one device."""

    def __init__(
        self,
        device: Device,
        random: RandomState,
        refuse: Callable[[str], CannotSimulate],
        maker: TensorMaker,
    ) -> None:
        self._device = device
        self._refuse = refuse
        self._maker = maker
        self._pools, self._graphs = StreamPools(), StreamGraphs()
        self._any_stream, self._stream_type, self._external = stream_types(self, self._pools)
        self._stream = self._default = self._stream_type(stream_id=0)
        self._generators = (DefaultGenerator(random),)
        self._heard: list[Any] = []
        self._of_every_window: dict[tuple[Any, str], Any] = {
            **_of_one_device(),
            **attention_patches(device.profile),
            **build_patches(device.version),
            **{(torch.cuda, name): value for name, value in self._names().items()},
        }

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the functions by owner and name, for a window of this process."""
        process = os.getpid()

        def is_in_bad_fork() -> bool:
            return os.getpid() != process

        run_backward = getattr(*RUN_BACKWARD)
        functions = {**self._of_devices(), **self._of_memory(), **self._of_streams()}
        found: dict[tuple[Any, str], Any] = {
            **absent_calls(self._refuse, self._device.workspaces),
            **self._of_every_window,
            **{(torch._C, f"_cuda_{name}"): function for name, function in functions.items()},
            **{(torch._C, f"_accelerator_{name}"): function
               for name, function in self._of_accelerator().items()},
            (torch._C, "_has_cuda"): True,
            **dict.fromkeys(
                ((torch._C, "_cuda_isInBadFork"), IN_BAD_FORK), is_in_bad_fork
            ),
            (torch._C, "_get_accelerator"): lambda *_: _CUDA,
            (torch.backends.mps, "is_available"): lambda: False,  # no machine has both
            (torch.cuda.graphs, "_cuda_isCurrentStreamCapturing"): lambda: False,
            RUN_BACKWARD: self._graphs.checked(run_backward, self._refuse),
            (torch, "Generator"): SimulatedGenerator,
            (torch, "Stream"): self._any_stream,
            (torch, "Event"): EventOf,
            (torch.Tensor, "record_stream"): lambda one, s: self._record_stream(one, s),
        }  # fmt: skip
        for name, kind in (
            *(("Stream", self._stream_type), ("ExternalStream", self._external), ("Event", Event)),
        ):
            found[torch.cuda, name] = found[torch.cuda.streams, name] = kind
        return found

    def hear_seeds(self) -> None:
        """Seeds the generator as a program did outside windows, where PyTorch waits for CUDA."""
        calls = [call for call in torch.cuda._lazy_seed_tracker.get_calls() if call]
        for call in calls:
            if not any(call is before for before in self._heard):
                call[0]()
        self._heard = calls

    # Names of torch.cuda that C++ code sets

    def _names(self) -> Mapping[str, Any]:
        return {
            "default_generators": self._generators,
            **{
                name: _LegacyType(name, (), {"dtype": dtype, "refuse": self._refuse})
                for name, dtype in _LEGACY
            },
            "_cudart": self._runtime(),
            "_get_device_properties": self._properties,
            "_initialized": True,  # no call waits for a first use any more
            "_cached_device_count": None,
            # Two objects, as PyTorch's are: its compiler keeps a handler for each.
            **{
                name: partial(self._index_of)
                for name in ("_exchange_device", "_maybe_exchange_device")
            },
        }

    def _runtime(self) -> Any:
        """Returns the functions of the CUDA runtime that PyTorch calls from Python."""
        success = SimpleNamespace(success=0)
        return SimpleNamespace(
            cudaError=success,
            cudaMemGetInfo=self._of_one(self._free_and_total),
            cudaGetErrorString=lambda _: "no error",
            cudaProfilerStart=lambda: 0,
            cudaProfilerStop=lambda: 0,
        )

    def _free_and_total(self) -> tuple[int, int]:
        total = self._device.profile.memory_bytes
        return total - self._device.statistics.reserved.current, total

    def _properties(self, device: int) -> Any:
        profile = self._device.profile
        major, minor = profile.compute_capability
        name = f"NVIDIA {profile.name} (simulated)"
        return SimpleNamespace(
            name=name,
            gcnArchName=name,
            major=major,
            minor=minor,
            total_memory=profile.memory_bytes,
            multi_processor_count=profile.multiprocessors,
            L2_cache_size=profile.l2_bytes,
            max_threads_per_multi_processor=profile.architecture.threads_per_multiprocessor,
            max_threads_per_block=1024,
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=profile.architecture.shared_bytes_per_block,
            shared_memory_per_multiprocessor=profile.architecture.shared_bytes_per_multiprocessor,
            regs_per_multiprocessor=65536,
            warp_size=32,
            is_integrated=0,
            is_multi_gpu_board=0,
            clock_rate=profile.clock_mhz * 1000,
            memory_clock_rate=profile.memory_clock_mhz * 1000,
            memory_bus_width=profile.bus_bits,
        )

    # Functions of torch._C, without "_cuda_"

    def _of_devices(self) -> Mapping[str, Any]:
        major, minor = self._device.profile.compute_capability

        return {
            "init": lambda: None,
            "getDeviceCount": lambda: 1,
            "getDevice": lambda: 0,
            "setDevice": self._index_of,
            "synchronize": lambda: None,
            "getArchFlags": lambda: f"sm_{major}{minor}",
            "getAllocatorBackend": lambda: "native",
            "ipc_collect": lambda: None,
            "sleep": lambda cycles: None,
        }

    def _index_of(self, device: int) -> int:
        """Returns the index of the one device.

        Raises:
            CannotSimulate: the program means another one.
        """
        if device > 0:
            raise self._refuse(
                f"the simulated backend has one device, 'cuda', not 'cuda:{device}'{at()}"
            )
        return 0

    def _of_one(self, function: Callable[[], Any]) -> Callable[[int], Any]:
        """Returns a function of a device that answers for the one that is there."""

        def of_device(device: int) -> Any:
            self._index_of(device)
            return function()

        return of_device

    def _of_memory(self) -> Mapping[str, Any]:
        return {
            "memoryStats": self._of_one(lambda: _memory_stats(self._device)),
            "resetPeakMemoryStats": self._of_one(self._device.reset_peaks),
            "resetAccumulatedMemoryStats": self._of_one(lambda: None),
            "emptyCache": lambda *_: self._device.empty_cache(),
        }

    def _of_accelerator(self) -> Mapping[str, Any]:
        memory = self._of_memory()
        return {
            "isAllocatorInitialized": lambda: True,
            "getDeviceStats": memory["memoryStats"],
            "resetPeakStats": memory["resetPeakMemoryStats"],
            "resetAccumulatedStats": memory["resetAccumulatedMemoryStats"],
            "emptyCache": memory["emptyCache"],
            "emptyHostCache": lambda: None,
            "getMemoryInfo": self._of_one(self._free_and_total),
            "getStream": lambda device: self._stream,
            "setStream": self.set_stream,
            "synchronizeDevice": lambda device: None,
        }

    def _of_streams(self) -> Mapping[str, Any]:
        def described(stream: Stream) -> tuple[int, int, int]:
            return stream.stream_id, stream.device_index, stream.device_type

        def enter(stream_id: int, device_index: int, device_type: int) -> None:
            self.set_stream(self._stream_type(stream_id=stream_id))

        return {
            "getCurrentStream": lambda device: described(self._stream),
            "getDefaultStream": lambda device: described(self._default),
            "getCurrentRawStream": lambda device: self._stream.stream_id,
            "setStream": enter,
        }

    # Streams

    def _record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        """Keeps a tensor's memory from reuse until another stream is done with it."""
        stored = self._maker.stored_in(tensor)
        if isinstance(stored, DeviceStorage) and stored.block is not None:
            self._device.record_stream(stored.block, stream.stream_id)

    def check_device(self, device: Any) -> None:
        """Checks that a stream is for the one device.

        Raises:
            RuntimeError: it is for another one.
        """
        index = device if isinstance(device, int) else torch.device(device).index
        if index:
            raise RuntimeError(_INVALID)

    def current_stream(self, device: Any = None) -> Stream:
        """Returns the current stream."""
        return self._stream

    def set_stream(self, stream: Stream | None) -> None:
        """Makes a stream the current one."""
        if stream is not None:
            self._stream = stream
            self._graphs.enter(stream.stream_id)
            self._device.stream = stream.stream_id
            self._device.stream_is_shared = self._pools.is_shared(stream.stream_id)
