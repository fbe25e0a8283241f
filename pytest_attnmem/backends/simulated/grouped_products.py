"""``_grouped_mm`` on CUDA (aten/src/ATen/native/cuda/GroupedBlas.cpp and GroupedMMUtils.h).

Hopper and Blackwell have one kernel for all groups of bfloat16, whose rule is in ``scratch``.
Everything else is a loop of products over groups, whose ends the host reads.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from .scratch.grouped import has_kernel

#: The bytes that a row of the output is a multiple of.
_ALIGNMENT: Final = 16


def grouped_mm(
    self: Any, mat2: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Multiplies groups: [M, K] or [G, M, K] by [K, N] or [G, K, N].

    ``offs`` [G] are the ends of the groups along the dimension that one of the tensors lacks.
    """
    if has_kernel(self, mat2, out_dtype, torch.cuda.get_device_capability()[0]):
        return NotImplemented
    out = _output(self, mat2, offs, out_dtype or self.dtype)
    if self.dim() == mat2.dim() == 3:
        return torch.bmm(self, mat2, out=out)
    start = 0
    for group, end in enumerate(offs.tolist()):
        rows = slice(start, end)
        if self.dim() == mat2.dim():
            a, b, target = self[:, rows], mat2[rows], out[group]
        elif self.dim() == 2:
            a, b, target = self[rows], mat2[group], out[rows]
        else:
            a, b, target = self[group], mat2[:, rows], out[:, rows]
        torch.mm(a, b, out=target)
        start = end
    return out


def _output(a: Any, b: Any, offs: Any, dtype: torch.dtype) -> Any:
    """Returns a new tensor whose rows start at multiples of 16 bytes."""
    groups = {(2, 2): [len(offs) if offs is not None else 0], (3, 3): [a.shape[0]]}
    shape = [*groups.get((a.dim(), b.dim()), []), a.shape[-2], b.shape[-1]]
    step = _ALIGNMENT // dtype.itemsize
    row = -(-shape[-1] // step) * step
    stride = [shape[-2] * row, row, 1][-len(shape) :]
    return a.new_empty_strided(shape, stride, dtype=dtype)
