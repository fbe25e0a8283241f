"""Whole numbers that one rank sends to another, in files: ranks run one after another.

Sizes, seeds and pickled objects travel between ranks as tensors of whole numbers. A rank that ran
before has posted them, so a rank that runs after it gets the true ones.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from pathlib import Path

import torch

from ...nulldevice.torchrun import MAIL, ended, started

#: Larger tensors are data, and not sizes or objects.
_LARGEST = 1 << 24
_WAIT = 0.02


class Mail:
    """The letters of a run, and the number of letters so far by their sender and receiver."""

    def __init__(self, folder: str | None) -> None:
        self._folder = Path(folder) if folder else None
        self._counts: Counter[str] = Counter()

    def post(self, between: str, values: torch.Tensor) -> None:
        """Posts the next letter; ``between`` names group, operation, sender and receiver."""
        path = self._next(between)
        if path is not None:
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(bytes(values.reshape(-1).view(torch.uint8).tolist()))
            part.rename(path)

    def take(self, between: str, sender: int, like: torch.Tensor) -> torch.Tensor | None:
        """Returns the next letter, shaped as ``like``; None if its sender did not run before."""
        path = self._next(between)
        if path is None or self._folder is None:
            return None
        while not path.is_file():
            if not started(self._folder, sender) or ended(self._folder, sender):
                break
            time.sleep(_WAIT)
        if not path.is_file():
            return None
        content = bytearray(path.read_bytes())
        if len(content) != like.numel() * like.element_size() or not content:
            return None
        return torch.frombuffer(content, dtype=like.dtype).reshape(like.shape)

    def _next(self, between: str) -> Path | None:
        if self._folder is None:
            return None
        self._counts[between] += 1
        name = hashlib.sha256(f"{between} {self._counts[between]}".encode()).hexdigest()[:32]
        return self._folder / name


def open_mail() -> Mail:
    """Returns the mail of this process's run; without letters if it is not a rank of many."""
    return Mail(os.environ.get(MAIL))


def is_whole(tensor: torch.Tensor) -> bool:
    """Returns True for a tensor that may be sizes, a seed or an object."""
    plain = not (tensor.is_floating_point() or tensor.is_complex())
    return plain and tensor.numel() * tensor.element_size() <= _LARGEST
