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


def pack_padded_backward(
    grad: Any, input_size: Sequence[int], batch_sizes: Any, batch_first: bool
) -> Any:
    """Returns the gradient of the padded sequences, of that of the packed ones."""
    sizes = [*input_size]
    if batch_first:
        sizes[:2] = sizes[1], sizes[0]
    made = torch.zeros(sizes, dtype=grad.dtype, device=grad.device)
    start = 0
    for step, size in enumerate(batch_sizes.tolist()):
        made[step][:size].copy_(grad[start : start + size])
        start += size
    return made.transpose(0, 1) if batch_first else made


def pad_packed(
    data: Any, batch_sizes: Any, batch_first: bool, padding_value: float, total_length: int
) -> Any:
    """Returns the padded sequences [N, B, …] of packed ones, and their lengths on the host."""
    _check_lengths(batch_sizes)
    sizes = batch_sizes.tolist()
    steps = len(sizes)
    torch._check(
        total_length <= 0 or total_length >= steps,
        lambda: (
            "Expected total_length to be at least the length of the longest sequence in input, but"
            f" got total_length={total_length} and max sequence length being {steps}"
        ),
    )
    shape = (max(total_length, steps), sizes[0], *data.shape[1:])
    made = torch.full(shape, padding_value, dtype=data.dtype, device=data.device)
    lengths, start, before, since = list[int](), 0, sizes[0], 0
    for step, size in enumerate((*sizes, 0)):
        if size != before:
            count = before * (step - since)
            part = data[start : start + count].view(step - since, before, *data.shape[1:])
            made[since:step, :before].copy_(part)
            start, since = start + count, step
        lengths += [step] * (before - size)
        before = size
    found = torch.tensor(lengths[::-1], device=_HOST)
    return (made.transpose(0, 1) if batch_first else made), found
