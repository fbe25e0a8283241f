"""``flex_attention`` on the host: PyTorch's own dense form, with the blocks of its mask.

The compiled kernel visits the blocks that a mask lists, and applies the mask's function inside
those that are not full. The dense form applies the function alone, which is the same only if the
lists were made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

_aten = torch.ops.aten
#: What a score counts, in floating-point operations: the dense form holds some five matrices.
SCORE: Final = 4096
#: The places of the mask among the operators' arguments, forward and backward.
_MASK, _BACKWARD_MASK = 4, 9


def flex(operator: Any, args: tuple[Any, ...], *, backward: bool) -> Any:
    """Returns output, log-sum-exp and largest scores, or the gradients of all inputs."""
    place = _BACKWARD_MASK if backward else _MASK
    return operator(*_with_blocks(args, place, args[1].shape[-2]))


def flex_work(query: Any, value: Any, *, backward: bool) -> int:
    """Returns the work of the dense form, in floating-point operations."""
    batch, heads, length, width = query.shape
    scores = batch * heads * length * value.shape[-2]
    work = scores * max(SCORE, 2 * (width + value.shape[-1]))
    return int(work * 5 // 2 if backward else work)


def _with_blocks(args: tuple[Any, ...], place: int, keys: int) -> tuple[Any, ...]:
    """Returns the arguments with a mask that has the blocks in its function."""
    mask = args[place]
    number, indices, full_number, full_indices = mask[2:6]
    rows, columns, inside = mask[-3:]
    width = -(-keys // columns)
    partial = _dense(number, indices, width)
    full = None if full_number is None else _dense(full_number, full_indices, width)

    def masked(b: Any, h: Any, q: Any, k: Any, *others: Any) -> Any:
        block = q // rows, k // columns
        within = _at(partial, b, h, *block) & inside(b, h, q, k, *others)
        return within if full is None else _at(full, b, h, *block) | within

    return (*args[:place], (*mask[:-1], masked), *args[place + 1 :])


def _dense(number: torch.Tensor, indices: torch.Tensor, width: int) -> torch.Tensor:
    """Returns the blocks that are listed, ``[B, H, rows, columns]`` bool."""
    listed = torch.arange(indices.shape[-1]) < number.unsqueeze(-1)
    beyond = torch.full_like(indices, width)
    places = torch.where(listed, indices, beyond).long()
    found = torch.zeros(*indices.shape[:-1], width + 1, dtype=torch.bool)
    return found.scatter_(-1, places, value=True)[..., :width]


def _at(blocks: torch.Tensor, b: Any, h: Any, row: Any, column: Any) -> Any:
    """Returns an element; a mask of one batch or one head is that of all.

    The element of such a mask does not depend on ``b`` or ``h``, so ``vmap`` makes one for all.
    """
    index: Callable[..., Any] = _aten.index.Tensor
    place = [row, column]
    for dim, outer in ((1, h), (0, b)):
        size = blocks.shape[dim]
        if size == 1:
            blocks = blocks.select(dim, 0)
        else:
            place.insert(0, outer % size)
    return index(blocks, place)
