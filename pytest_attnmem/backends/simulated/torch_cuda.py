"""Replacements for ``torch.cuda`` on a simulated device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ...errors import CannotSimulate
from . import cuda_build, one_device_calls
from .absent_calls import absent_calls
from .attention import questions
from .generators import DefaultGenerator, SimulatedGenerator
from .legacy_constructors import legacy_constructors
from .memory_stats import MemoryStats
from .program_errors import at
from .random_state import RandomState, functions_of
from .stream_graphs import StreamGraphs
from .streams import Event, EventOf, Stream, StreamPools, stream_types

if TYPE_CHECKING:
    from .simulated_device import Device


class TorchCuda:
    """The functions of ``torch.cuda`` for one device, with its current stream."""

    def __init__(
        self, device: Device, random: RandomState, refused: Callable[[str], CannotSimulate]
    ) -> None:
        self._device = device
        self._refused = refused
        self._random = random
        self._pools = StreamPools()
        self._any_stream, self._stream_type, self._external_type = stream_types(self, self._pools)
        self._stream = self._default_stream = self._stream_type(stream_id=0)
        self.stream_graphs = StreamGraphs()

    def current_stream(self, device: Any = None) -> Stream:
        """Returns the current stream."""
        return self._stream

    def set_stream(self, stream: Stream | None) -> None:
        """Makes a stream the current one."""
        if stream is not None:
            self._stream = stream
            self._device.stream = stream.stream_id
            self._device.stream_is_shared = self._pools.is_shared(stream.stream_id)
            self.stream_graphs.enter(stream.stream_id)

    def restart(self) -> None:
        """Makes the default stream the current one."""
        self.set_stream(self._default_stream)

    def replacements(self) -> Mapping[str, Any]:
        """Returns the replacements for attributes of ``torch.cuda`` and its modules, by name."""
        found = {**self._device_functions(), **self._memory_functions()}
        return MappingProxyType(
            {
                **{name: _no_op() for name in _NO_OPS},
                **found,
                **{name: self._of_device(found[name]) for name in _OF_DEVICE if name in found},
                **{name: self._of_device(_no_op()) for name in _NO_OPS_OF_DEVICE},
                "set_device": self.check_device,
                "current_stream": self._of_device(self.current_stream),
                "set_stream": self.set_stream,
                "default_stream": self._of_device(lambda device: self._default_stream),
                "stream": lambda stream: stream or self._stream,
                "Stream": self._stream_type,
                "ExternalStream": self._external_type,
                "Event": Event,
                **functions_of(self._random, self._check_index),
                "default_generators": (DefaultGenerator(self._random),),
                "_initialized": True,  # a checkpoint then keeps the state of the generator
            }
        )

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the replacements in ``torch.cuda`` and ``torch.accelerator``, by owner."""
        found: dict[tuple[Any, str], Any] = {
            (torch, "Generator"): SimulatedGenerator,
            (torch, "Stream"): self._any_stream,
            (torch, "Event"): EventOf,
            (torch.backends.cuda, "is_built"): lambda: True,
            (torch._C, "_get_accelerator"): lambda *_: torch.device("cuda"),
            **legacy_constructors(),
            **absent_calls(self._refused),
            **one_device_calls.patches(),
            **questions.patches(self._device.profile),
            **cuda_build.patches(self._device.version),
        }
        for name, replacement in self.replacements().items():
            for module in (torch.cuda, torch.cuda.memory, torch.cuda.random):
                if hasattr(module, name):
                    found[module, name] = replacement
        for name, replacement in self.accelerator().items():
            if hasattr(torch.accelerator, name):
                found[torch.accelerator, name] = replacement
        return found

    def accelerator(self) -> Mapping[str, Any]:
        """Returns the replacements for attributes of ``torch.accelerator``, by name."""
        cuda = self.replacements()
        functions = {name: cuda[name] for name in _ACCELERATOR_FUNCTIONS}
        return MappingProxyType(
            {
                **functions,
                "current_accelerator": lambda check_available=False: torch.device("cuda"),
                "current_device_index": cuda["current_device"],
                "current_device_idx": cuda["current_device"],
                **dict.fromkeys(("set_device_index", "set_device_idx"), self.check_device),
                "device_index": _OneDevice,
            }
        )

    def check_device(self, device: Any) -> None:
        """Checks that a program means the one device.

        Raises:
            CannotSimulate: it means another one.
            ValueError: it means the host.
        """
        named = None if isinstance(device, int) else torch.device(device)
        if named is not None and named.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {named}")
        self._check_index(device)

    def _check_index(self, device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        if index is not None and index > 0:
            raise self._refused(
                f"the simulated backend has one device, 'cuda', not {str(device)!r}{at()}"
            )

    def _of_device(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function whose argument is a device, which is checked."""

        def checked(device: Any = None) -> Any:
            if device is not None:
                self.check_device(device)
            return function(device)

        return checked

    def _device_functions(self) -> dict[str, Any]:
        profile = self._device.profile
        major, minor = profile.compute_capability
        ampere = profile.compute_capability >= (8, 0)
        name = f"NVIDIA {profile.name} (simulated)"
        properties = SimpleNamespace(
            name=name,
            major=major,
            minor=minor,
            total_memory=profile.memory_bytes,
            multi_processor_count=profile.multiprocessors,
            L2_cache_size=profile.l2_bytes,
            max_threads_per_multi_processor=profile.architecture.threads_per_multiprocessor,
            shared_memory_per_block_optin=profile.architecture.shared_bytes_per_block,
            shared_memory_per_multiprocessor=(profile.architecture.shared_bytes_per_multiprocessor),
            max_threads_per_block=1024,
            shared_memory_per_block=48 << 10,
            regs_per_multiprocessor=65536,
            gcnArchName=name,
            warp_size=32,
            is_integrated=0,
            is_multi_gpu_board=0,
            clock_rate=profile.clock_mhz * 1000,
            memory_clock_rate=profile.memory_clock_mhz * 1000,
            memory_bus_width=profile.bus_bits,
        )
        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "_is_compiled": lambda: True,
            "is_bf16_supported": lambda including_emulation=True: including_emulation or ampere,
            "is_tf32_supported": lambda: ampere,
            "is_current_stream_capturing": lambda: False,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "device": type("device", (_OneDevice,), {"check": staticmethod(self.check_device)}),
            "_exchange_device": lambda device: 0,
            "_maybe_exchange_device": lambda device: 0,
            "get_device_name": lambda device=None: name,
            "get_device_capability": lambda device=None: (major, minor),
            "get_device_properties": lambda device=None: properties,
            "get_arch_list": lambda: [f"sm_{major}{minor}"],
        }

    def _memory_functions(self) -> dict[str, Any]:
        memory, total = self._device, self._device.profile.memory_bytes

        def current(kind: str) -> Callable[..., int]:
            return lambda device=None: int(getattr(memory.statistics, kind).current)

        def highest(kind: str) -> Callable[..., int]:
            return lambda device=None: memory.peaks()[kind]

        def mem_get_info(device: Any = None) -> tuple[int, int]:
            return total - memory.statistics.reserved.current, total

        def reset(device: Any = None) -> None:
            memory.reset_peaks()

        def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
            if device is not None:
                self.check_device(device)
            return "\n".join(f"{name}: {value}" for name, value in self._statistics().items())

        return {
            "memory_allocated": current("allocated"),
            "max_memory_allocated": highest("allocated"),
            "memory_reserved": current("reserved"),
            "max_memory_reserved": highest("reserved"),
            "memory_cached": current("reserved"),
            "max_memory_cached": highest("reserved"),
            "memory_stats": self._statistics,
            "memory_stats_as_nested_dict": lambda device=None: self._statistics().nested(),
            "memory_summary": memory_summary,
            "mem_get_info": mem_get_info,
            "get_memory_info": mem_get_info,
            "reset_peak_memory_stats": reset,
            "reset_max_memory_allocated": reset,
            "reset_max_memory_cached": reset,
            "empty_cache": lambda: memory.empty_cache(),
            "get_allocator_backend": lambda: "native",
        }

    def _statistics(self, device: Any = None) -> MemoryStats:
        return MemoryStats(self._device, self._refused)


def _no_op() -> Callable[..., None]:
    """Returns a function that does nothing, each time another one.

    Dynamo has a rule for each function of ``torch.cuda``, and one function may not have two.
    """
    return lambda *_, **__: None


#: Functions that ``torch.accelerator`` has too.
_ACCELERATOR_FUNCTIONS = (
    *("is_available", "device_count", "current_stream", "set_stream", "synchronize"),
    *("empty_cache", "memory_stats", "memory_allocated", "max_memory_allocated"),
    *("memory_reserved", "max_memory_reserved", "reset_peak_memory_stats", "get_memory_info"),
    *("reset_accumulated_memory_stats", "empty_host_cache"),
)

#: Functions whose argument is a device.
_OF_DEVICE = (
    *("get_device_name", "get_device_capability", "get_device_properties", "memory_allocated"),
    *("max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached"),
    *("max_memory_cached", "memory_stats", "memory_stats_as_nested_dict", "mem_get_info"),
    *("get_memory_info", "reset_peak_memory_stats", "reset_max_memory_allocated"),
    "reset_max_memory_cached",
)

#: Functions that do nothing on a simulated device.
_NO_OPS = (
    "init",
    "_lazy_init",
    "ipc_collect",
    "seed",
    "seed_all",
    "empty_host_cache",
    "_sleep",
)
#: The same of those whose argument is a device.
_NO_OPS_OF_DEVICE = ("synchronize", "reset_accumulated_memory_stats")


class _OneDevice:
    """``torch.cuda.device(0)``."""

    check: Callable[[Any], None]

    def __init__(self, device: Any = None) -> None:
        if device is not None and type(self) is not _OneDevice:
            self.check(device)
        self.idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
