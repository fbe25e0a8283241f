"""The generator of the simulated device: a seed and an offset, as CUDA's generator has."""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from ...values.notes import Random

#: The bytes of a state (c10's ``CUDAGeneratorImpl``): a seed and an offset.
_LAYOUT = "<Qq"


class RandomState:
    """The state of a generator; two operators never draw the same numbers."""

    def __init__(self) -> None:
        self.seed, self._offset = 0, 0

    def manual_seed(self, seed: int) -> None:
        """Sets the seed, and starts at the first number."""
        self.seed, self._offset = seed % 2**64, 0

    def draw(self) -> Random:
        """Returns the state for one operator, and moves on."""
        state = Random(self.seed, self._offset)
        self._offset += 4
        return state

    def get(self, device: Any = None) -> torch.Tensor:
        """Returns the state, ``[16]`` uint8 on the host."""
        with torch._C.DisableTorchFunction(), no_dispatch():
            packed = struct.pack(_LAYOUT, self.seed, self._offset)
            return torch.tensor(list(packed), dtype=torch.uint8)

    def set(self, state: torch.Tensor, device: Any = None) -> None:
        """Restores a state that ``get`` returned."""
        with torch._C.DisableTorchFunction():
            self.seed, self._offset = struct.unpack(_LAYOUT, bytes(state.tolist()))
