"""The versions of tensors that an operator of lists writes: CUDA's kernels count each write."""

from __future__ import annotations

from typing import Any

import torch


def count_write(func: Any, written: Any) -> None:
    """Counts a write of ``torch._foreach_add_`` and its like, for the checks of autograd."""
    if not func._schema.name.startswith("aten::_foreach_"):
        return
    for tensor in written:
        if not tensor.is_inference():
            torch._C._increment_version([tensor])
