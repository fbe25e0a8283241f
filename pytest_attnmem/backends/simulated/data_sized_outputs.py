"""Operators that put a result whose size depends on values into a target (``out=``).

Sources: the generated kernels of ``out`` overloads, which resize the target and copy the result;
aten/src/ATen/native/cuda/{Nonzero,IndexKernel}.cu, whose functions without ``out`` make an empty
target and call those with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

_aten = torch.ops.aten


def _copied(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the targets, the last keywords, with copies of what the operator returns."""
    targets = {name: kwargs.pop(name) for name in [*kwargs] if name.startswith("out")}
    found = func(*args, **kwargs)
    several = isinstance(found, tuple)
    for made, target in zip(found if several else (found,), targets.values(), strict=True):
        _check_dtype(made.dtype, target)
        target.resize_(made.shape).copy_(made)
    return tuple(targets.values()) if several else next(iter(targets.values()))


def _made_in(func: Any, *args: Any, out: Any) -> Any:
    """Returns the target, which has no memory, in that of what the operator returns."""
    _check_dtype(args[0].dtype if func is _aten.masked_select.default else torch.int64, out)
    made = func(*args)
    if out.is_cuda:
        return out.set_(made)
    return out.resize_(made.shape).copy_(made)


def _check_dtype(dtype: torch.dtype, out: Any) -> None:
    if out.dtype != dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {dtype}, but got {out.dtype} instead"
        )


#: The functions by operator.
INTO_TARGETS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten.nonzero.out: partial(_made_in, _aten.nonzero.default),
        _aten.masked_select.out: partial(_made_in, _aten.masked_select.default),
        _aten.bincount.out: partial(_copied, _aten.bincount.default),
        _aten.repeat_interleave.Tensor_out: partial(_copied, _aten.repeat_interleave.Tensor),
        _aten._unique.out: partial(_copied, _aten._unique.default),
        _aten._unique2.out: partial(_copied, _aten._unique2.default),
        _aten.unique_consecutive.out: partial(_copied, _aten.unique_consecutive.default),
        _aten.unique_dim.out: partial(_copied, _aten.unique_dim.default),
        _aten.unique_dim_consecutive.out: partial(_copied, _aten.unique_dim_consecutive.default),
    }
)
