"""The recorder of a run that lists the tensors: their modules, roles and holders."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ....measurement.peak_watch import PeakWatch
from ....measurement.protocol import Interval
from ...tracing.holders import NamesHolders, holders
from ...tracing.live_tensors import Watch
from ...tracing.tensor_origin import GRADIENT, PARAMETER, Origins, is_gradient, is_parameter
from ..memory.storages import DeviceStorage
from ..pytorch_device.kernels import tensors_in
from ..pytorch_device.tensors import TensorMaker

if TYPE_CHECKING:
    import torch

    from .simulation import DeviceSimulation


class DeviceTracer(NamesHolders):
    """A recorder of a simulation that also finds modules and roles."""

    def __init__(self, simulation: DeviceSimulation, maker: TensorMaker) -> None:
        self._simulation = simulation
        self._maker = maker
        self._watching: Watch | None = None
        self._origins = Origins()  # of all its intervals: backward follows forward

    def start(self) -> None:
        """Begins an interval."""
        self._simulation.lines.trace(self._origins)
        self._simulation.learn = self._learn
        self._simulation.start()
        self._simulation.device.watch(self._watching)

    def stop(self) -> Interval:
        """Ends the interval and returns it."""
        interval = self._simulation.stop()
        self._simulation.device.watch(None)
        self._simulation.learn = None
        self._simulation.lines.trace(None)
        return interval

    def allocation_of(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of the allocation of a live storage; None for an input's."""
        if storage.device.type != "cuda":
            return None
        stored = self._maker.stored_at(storage.data_ptr())
        block = stored.block if isinstance(stored, DeviceStorage) else None
        return block.number if block is not None and block.number >= 0 else None

    def watch(self, peak: PeakWatch) -> None:
        """Has ``peak`` see each new tensor of the device."""
        peak.begin(partial(holders, allocation_of=self.allocation_of, running=True))
        self._watching = peak.allocated

    def _learn(self, args: Iterable[Any], out: Any) -> None:
        """Learns of an operator which storages are of parameters, or of their gradients."""
        self._origins.note(sys._getframe(1))
        for tensor in tensors_in(args):
            # An operator gets a view of a parameter where PyTorch transposes it.
            whole = tensor._base if tensor._is_view() else tensor
            if is_parameter(whole):
                self._set_role(PARAMETER, tensor)
        if is_gradient():
            for tensor in tensors_in((out,)):
                self._set_role(GRADIENT, tensor)

    def _set_role(self, role: str, tensor: torch.Tensor) -> None:
        stored = self._maker.stored_in(tensor) if self._maker.is_here(tensor) else None
        if isinstance(stored, DeviceStorage):
            stored.role = role
