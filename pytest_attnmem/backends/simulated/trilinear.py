"""Sums of products of three tensors (``_trilinear`` of ATen's native/Linear.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def trilinear(
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Any:
    """Returns the sums over ``sumdim``, one position of ``unroll_dim`` after another."""
    total = i1.dim() + len(expand1)
    first: list[int] = []
    second: list[int] = []
    sizes: list[int] = []
    length = -1
    for dim in range(total):
        size = 0
        if dim in expand1:
            i1 = i1.unsqueeze(dim)
        else:
            size = i1.shape[dim]
        if dim in expand2:
            i2 = i2.unsqueeze(dim)
        else:
            size = i2.shape[dim]
        if dim in expand3:
            i3 = i3.unsqueeze(dim)
            if dim in sumdim and dim != unroll_dim:
                first.append(dim)
        else:
            size = i3.shape[dim]
            if dim in sumdim and dim != unroll_dim:
                second.append(dim)
        sizes.append(1 if dim in sumdim else size)
        if dim == unroll_dim:
            length = size
    steps = [unroll_dim not in expanded for expanded in (expand1, expand2, expand3)]
    output = torch.zeros(sizes, dtype=i1.dtype, device=i1.device)
    if i1.numel() and i2.numel() and i3.numel():
        for k in range(length):
            a, b, c = (
                tensor.narrow(unroll_dim, k * step, 1)
                for tensor, step in zip((i1, i2, i3), steps, strict=True)
            )
            found = _product(a, b, first)
            found = _product(found, c, second)
            whole = unroll_dim in sumdim
            (output if whole else output.narrow(unroll_dim, k, 1)).add_(found)
            del found
    return output.squeeze(tuple(sumdim)) if sumdim else output


def _product(left: Any, right: Any, dims: Sequence[int]) -> Any:
    """Returns the sums of products over ``dims``, which are kept (``sumproduct_pair``)."""
    if not dims:
        return left * right
    both: list[int] = []
    of_left: list[int] = []
    of_right: list[int] = []
    for dim in range(left.dim()):
        has_left, has_right = left.shape[dim] != 1, right.shape[dim] != 1
        if dim in dims:
            if has_left and not has_right:
                left = left.sum(dim, True)
            elif has_right and not has_left:
                right = right.sum(dim, True)
        elif has_left and has_right:
            both.append(dim)
        elif has_left:
            of_left.append(dim)
        else:
            of_right.append(dim)
    summed = [*dims]
    shape = [
        *(left.shape[dim] for dim in (*both, *of_left)),
        *(1 for _ in summed),
        *(right.shape[dim] for dim in of_right),
    ]
    order = [*both, *of_left, *summed, *of_right]
    width = _extent(left, summed)
    left = left.permute(order).reshape(_extent(left, both), _extent(left, of_left), width)
    right = right.permute([*both, *summed, *of_right, *of_left]).reshape(
        left.shape[0], width, _extent(right, of_right)
    )
    result = torch.bmm(left, right)
    return result.view(shape).permute([order.index(dim) for dim in range(len(order))])


def _extent(tensor: Any, dims: Sequence[int]) -> int:
    extent = 1
    for dim in dims:
        extent *= tensor.shape[dim]
    return extent
