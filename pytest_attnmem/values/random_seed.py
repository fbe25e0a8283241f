"""Seeds of dropout, which a forward hands to its backward in the place of the device's."""

from __future__ import annotations

import torch

from .dense_attention import Dropout


def drawn_seed(p: float) -> int:
    """Returns a seed of the CPU's default generator; 0, without a draw, if nothing is dropped."""
    return int(torch.randint(2**62, ())) if p > 0 else 0


def dropout(p: float, seed: torch.Tensor | int) -> Dropout | None:
    """Returns the dropout of a seed, or of a tensor that begins with it; None for ``p`` 0."""
    if p <= 0:
        return None
    return Dropout(p, seed if isinstance(seed, int) else int(seed.reshape(-1)[0]))
