"""Packed sequences, as Python code with the calls of ATen's PackedSequence.cpp.

The numbers of sequences at each step are on the host, where C++ code reads them by their address.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

_HOST = torch.device("cpu")


def pack_padded(input: Any, lengths: Any, batch_first: bool) -> Any:
    """Returns the elements [sum of ``lengths``, …] of [N, B, …], and the sequences at each step."""
    _check_lengths(lengths)
    x = input.transpose(0, 1) if batch_first else input
    batch, given = x.shape[1], lengths.tolist()
    _check_order(x, given)
    steps, sizes, before = [], list[int](), 0
    for ended, length in enumerate(reversed(given)):
        if length > before:
            running = batch - ended
            part = x[before:length, :running].contiguous()
            steps.append(part.view(-1, *x.shape[2:]))
            del part
            sizes += [running] * (length - before)
            before = length
    return torch.cat(steps), torch.tensor(sizes, device=_HOST)


def _check_lengths(lengths: Any) -> None:
    """Raises PyTorch's error for lengths that are no list of int64 on the host."""
    fits = lengths.dim() == 1 and lengths.device == _HOST and lengths.dtype is torch.int64
    torch._check(
        fits,
        lambda: (
            "'lengths' argument should be a 1D CPU int64 tensor, but got"
            f" {lengths.dim()}D {lengths.device} {lengths.dtype} tensor"
        ),
    )


def _check_order(x: Any, lengths: Sequence[int]) -> None:
    batch = x.shape[1]
    torch._check(x.numel() > 0, lambda: "Cannot pack empty tensors.")
    torch._check(
        len(lengths) == batch,
        lambda: (
            "Expected `len(lengths)` to be equal to batch_size, but got"
            f" {len(lengths)} (batch_size={batch})"
        ),
    )
    torch._check(
        lengths[-1] > 0,
        lambda: (
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that"
            " is <= 0"
        ),
    )
    torch._check(
        all(longer >= shorter for longer, shorter in pairwise(lengths)),
        lambda: (
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You"
            " can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to"
            " sidestep this requirement if you do not need ONNX exportability."
        ),
    )
