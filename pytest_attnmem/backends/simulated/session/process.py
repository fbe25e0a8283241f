"""The device of this process: registered once, when a simulated device is first asked for."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import torch

from ....errors import BackendUnavailable
from ....measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ....values.tape import Tape
from ..memory.storages import ValuesOfStorages
from ..operators.collectives import collective_kernels
from ..operators.operators import Operators
from ..operators.own_kernels import composites, decomposed_under_vmap, own_kernels, under_vmap
from ..pytorch_device.accelerator import make_cuda_accelerator, works_in_child
from ..pytorch_device.kernels import register, register_collectives, unwrapped
from ..pytorch_device.tensors import TensorMaker


class PinnedMemory:
    """The storages of the host that a program asked to be pinned."""

    def __init__(self) -> None:
        self._storages = weakref.WeakValueDictionary[int, torch.UntypedStorage]()

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the methods of tensors, by owner and name."""

        def pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
            if not tensor.is_cpu:
                kind = tensor.type()
                raise RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")
            if is_pinned(tensor):
                return tensor
            made = tensor.clone()
            storage = _storage_of(made)
            if storage.nbytes():
                self._storages[storage._cdata] = storage
            return made

        def is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
            return tensor.is_cpu and _storage_of(tensor)._cdata in self._storages

        return {
            (torch.Tensor, "pin_memory"): pin_memory,
            (torch.Tensor, "is_pinned"): is_pinned,
        }


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Returns the storage of a tensor, or of the one that transforms have wrapped."""
    return unwrapped(tensor).untyped_storage()


class ProcessDevice:
    """The tensors and the kernels under CUDA's key of PyTorch's dispatcher."""

    def __init__(self) -> None:
        make_cuda_accelerator()
        self.maker = TensorMaker()
        self.operators = Operators(self.maker)
        self.pinned = PinnedMemory()
        self.values = ValuesOfStorages(self.maker, lambda: self.operators.current.profile)
        self.tape = Tape(self.values, parse_values_limit(VALUES_LIMIT))
        self._kept = [
            *register(
                self.operators.run,
                own_kernels(self.operators),
                composites(self.operators),
                {
                    "FuncTorchBatched": under_vmap(self.operators),
                    "FuncTorchVmapMode": decomposed_under_vmap(self.operators),
                },
                partial(self.operators.refuse_layout, "sparse"),
            ),
            *register_collectives(collective_kernels(self.operators)),
        ]
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """Leaves the window in a process that its program forks, such as a DataLoader's worker.

        That has no device: what it makes without one is on the host.
        """
        if self.operators.current.inside:
            self.operators.current.name_device()
            self.operators.is_forked = True

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns what runs backward passes in the threads that programs start, by owner and name.

        The setting of ``running`` is of one thread.
        """
        bootstrap: Any = vars(threading.Thread)["_bootstrap_inner"]

        def started(thread: threading.Thread) -> None:
            with torch.autograd.set_multithreading_enabled(False):
                bootstrap(thread)

        return {(threading.Thread, "_bootstrap_inner"): started, **self.pinned.patches()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Has PyTorch's own threads and compilers run the body's code as the device can.

        Backward passes run in the thread that starts them: autograd may have started its threads
        before this device was there, and the lines of the program are on the thread's stack.
        TorchScript runs operator by operator, as its fuser compiles for a real device.
        """
        before = torch._C._jit_can_fuse_on_gpu()
        torch._C._jit_override_can_fuse_on_gpu(False)
        try:
            with torch.autograd.set_multithreading_enabled(False):
                yield
        finally:
            torch._C._jit_override_can_fuse_on_gpu(before)


class _Process:
    device: ProcessDevice | None = None


#: PyTorch's registrations belong to the process, and none can be taken back.
_PROCESS: Final = _Process()


def process_device() -> ProcessDevice:
    """Returns the device of this process.

    Raises:
        BackendUnavailable: PyTorch has a real device here, or this build cannot have a simulated
            one.
    """
    if _PROCESS.device is None:
        if not works_in_child():
            raise BackendUnavailable(
                f"torch {torch.__version__} on {sys.platform} cannot have a simulated device:"
                " it needs Linux, macOS or Windows, and a build of PyTorch's own; use backend='cpu'"
            )
        if torch.cuda.is_available():
            raise BackendUnavailable(
                "a simulated device cannot stand beside a real one of CUDA's; run with"
                " --attnmem-backend simulated, or with CUDA_VISIBLE_DEVICES= in the environment"
            )
        _PROCESS.device = ProcessDevice()
    return _PROCESS.device
