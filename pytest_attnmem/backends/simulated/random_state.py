"""The state of a generator of the simulated device: a seed and an offset, as CUDA's has."""

from __future__ import annotations

import struct
from typing import Final

import torch
from torch.utils._mode_utils import no_dispatch

from ...values.notes import Random

#: The bytes of a state (c10's ``CUDAGeneratorImpl``): a seed and an offset.
_LAYOUT: Final = "<Qq"
_SEED: Final = "<Q"
#: The seed of a generator that nobody has seeded (``c10::detail::default_rng_seed_val``).
_DEFAULT_SEED: Final = 67280421310721


class RandomState:
    """The state of a generator; two operators never draw the same numbers."""

    def __init__(self) -> None:
        self.seed, self.offset = _DEFAULT_SEED, 0

    def manual_seed(self, seed: int) -> None:
        """Sets the seed, and starts at the first number."""
        self.seed, self.offset = seed % 2**64, 0

    def draw(self, numbers: int = 4) -> Random:
        """Returns the state for one operator, and moves on by so many numbers."""
        state = Random(self.seed, self.offset)
        self.offset += numbers
        return state

    def get(self) -> torch.Tensor:
        """Returns the state, ``[16]`` uint8 on the host."""
        with torch._C.DisableTorchFunction(), no_dispatch():
            packed = struct.pack(_LAYOUT, self.seed, self.offset)
            return torch.tensor(list(packed), dtype=torch.uint8)

    def set(self, state: torch.Tensor) -> None:
        """Restores a state that ``get`` returned, or a seed alone."""
        with torch._C.DisableTorchFunction():
            packed = bytes(state.tolist())
        if len(packed) == struct.calcsize(_SEED):
            self.manual_seed(struct.unpack(_SEED, packed)[0])
        elif len(packed) == struct.calcsize(_LAYOUT):
            self.seed, self.offset = struct.unpack(_LAYOUT, packed)
        else:
            raise RuntimeError("RNG state is wrong size")
