"""The device of this process: registered once, when a simulated device is first asked for."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch

from ...errors import BackendUnavailable
from .collective_kernels import collective_kernels
from .operators import Operators
from .own_kernels import composites, own_kernels, unknown_gradients
from .pytorch_device.accelerator import make_cuda_accelerator, works_in_child
from .pytorch_device.kernels import register, register_collectives
from .pytorch_device.tensors import CUDA, PRIVATE, DeviceKey, TensorMaker


class ProcessDevice:
    """The tensors and the kernels under one key of PyTorch's dispatcher."""

    def __init__(self, key: DeviceKey) -> None:
        if key is CUDA:
            make_cuda_accelerator()
        else:
            torch.utils.backend_registration._setup_privateuseone_for_python_backend(key.type)
        self.maker = TensorMaker(key)
        self.operators = Operators(self.maker)
        self._kept = [
            *register(
                key,
                self.operators.run,
                own_kernels(self.operators),
                composites(self.operators),
                unknown_gradients(self.operators),
                partial(self.operators.refuse_layout, "sparse"),
            ),
            *register_collectives(key, collective_kernels(self.operators)),
        ]


class _Process:
    device: ProcessDevice | None = None


#: PyTorch's registrations belong to the process, and none can be taken back.
_PROCESS: Final = _Process()


def process_device(key: DeviceKey | None = None) -> ProcessDevice:
    """Returns the device of this process, under a key, by default the best that works here.

    Raises:
        BackendUnavailable: PyTorch has a real device here, or another key is in use.
    """
    found = _PROCESS.device
    if found is None:
        if key is None:  # first: PyTorch remembers that it was asked for devices before a fork
            key = CUDA if works_in_child() else PRIVATE
        if torch.cuda.is_available():
            raise BackendUnavailable("a simulated device cannot stand beside a real one of CUDA's")
        _PROCESS.device = found = ProcessDevice(key)
    elif key is not None and found.maker.key is not key:
        raise BackendUnavailable(
            f"the device of this process has the key {found.maker.key.dispatch}"
        )
    return found
