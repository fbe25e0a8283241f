"""Checks that an operator makes on every device, and the rules of its sizes do not.

A check looks for what may be wrong with a call. The CPU's kernel is then called for the error: it
checks the call with the same code as CUDA's, before it computes.

Source: aten/src/ATen/native: DistributionTemplates.h, Loss.cpp, Activation.cpp, BinaryOps.cpp,
UnaryOps.cpp, SegmentReduce.cpp, Sorting.cpp, TensorShape.cpp, TensorAdvancedIndexing.cpp,
Distributions.cpp, Bucketization.cpp and layer_norm.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from ...errors import again, first_line
from .error_texts import kernel_error
from .index_values import is_broadcast, selected
from .overlaps import Check

_aten = torch.ops.aten
_Suspect = Callable[[tuple[Any, ...], Mapping[str, Any]], bool]

#: Operators whose numbers alone may be wrong, for tensors of a dtype.
_OF_NUMBERS: Final = frozenset(
    {
        *(_aten.uniform_.default, _aten.normal_.default, _aten.normal.Tensor_float),
        *(getattr(_aten.random_, "from"), _aten.random_.to, _aten.exponential_.default),
        *(_aten.geometric_.default, _aten.cauchy_.default, _aten.log_normal_.default),
        *(_aten.bernoulli_.float, _aten.huber_loss.default, _aten.smooth_l1_loss.default),
        *(_aten.celu.default, _aten.celu_.default, _aten.leaky_relu_backward.default),
        *(_aten.div.Tensor_mode, _aten.div_.Tensor_mode, _aten.mvlgamma.default),
        *(_aten.randint_like.default, _aten.randint_like.low_dtype),
    }
)
#: Factories of random integers: the place of their sizes, which do not matter.
_FACTORIES: Final[Mapping[Any, int]] = MappingProxyType(
    {
        _aten.randint.default: 1,
        _aten.randint.generator: 1,
        _aten.randint.low: 2,
        _aten.randint.low_generator: 2,
    }
)
#: These fill memory that they have allocated.
_FILL: Final = frozenset({_aten.randint_like.default, _aten.randint_like.low_dtype, *_FACTORIES})
#: Operators of CUDA alone: those that check a call for them.
_ASKED: Final[Mapping[Any, Any]] = MappingProxyType(
    {_aten._fused_rms_norm.default: _aten.rms_norm.default}
)
_SIDES: Final = (None, "left", "right")
_OF_PLACES: Final = ("prod", "mean", "amax", "amin")
_OF_SEGMENTS: Final = ("sum", "mean", "max", "min", "prod")
#: The most sets of numbers that are kept, of an operator.
_MOST_PASSED: Final = 1024
#: The most probabilities that ``multinomial`` draws from.
MOST_CATEGORIES: Final = 1 << 24


def check_of_kernel(func: Any) -> Check | None:
    """Returns the check of an operator, or None; it raises PyTorch's error."""
    if func in _OF_NUMBERS or func in _FACTORIES:
        return _OfNumbers(func)
    suspect = _SUSPECTS.get(func)
    return None if suspect is None else partial(_ask, _ASKED.get(func, func), suspect)


class _OfNumbers:
    """Checks the numbers of an operator's calls, once for each set of numbers and dtypes."""

    def __init__(self, func: Any) -> None:
        self._func = func
        self._sizes_at = _FACTORIES.get(func, -1)
        self._passed: set[Any] = set()

    def __call__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        refused: Callable[[str], Exception],
    ) -> None:
        if self._sizes_at >= 0:
            args = (*args[: self._sizes_at], [0], *args[self._sizes_at + 1 :])
        known = (*map(_of_numbers, args), *map(_of_numbers, kwargs.values()))
        if known in self._passed:
            return
        kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
        if error := kernel_error(self._func, args, kwargs, empty=True):
            if self._func in _FILL:  # so the memory is unknown
                refused(f"{self._func} fails on CUDA: {first_line(error)}")
            raise again(error)
        if len(self._passed) >= _MOST_PASSED:
            self._passed.clear()
        self._passed.add(known)


def _of_numbers(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype
    if isinstance(value, (list, torch._C.Generator)):
        return type(value)
    return type(value), str(value)  # 0.0 and -0.0 are equal


def _ask(
    asked: Any, suspect: _Suspect, args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any
) -> None:
    if suspect(args, kwargs) and (error := kernel_error(asked, args, kwargs)):
        raise again(error)


def _dim(at: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    dim = args[at] if len(args) > at else kwargs.get("dim", -1)
    most = max(args[0].dim(), 1)
    return not -most <= dim < most


def _word(at: int, name: str, known: tuple[Any, ...], args: Any, kwargs: Any) -> bool:
    return (args[at] if len(args) > at else kwargs.get(name, known[0])) not in known


def _written_slice(view: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Returns True if a source does not have the size of the view that it is written to."""
    x, source = args[:2]
    with torch._C._DisableTorchDispatch():
        alike = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        try:
            return tuple(view(alike, *args[2:], **kwargs).shape) != tuple(source.shape)
        except (RuntimeError, IndexError):
            return True


def _index_add(args: tuple[Any, ...], _: Mapping[str, Any]) -> bool:
    x, dim, _, source = args[:4]
    if not x.dim() or x.dim() != source.dim():
        return bool(x.dim() != source.dim())
    return any(
        mine != its
        for at, (mine, its) in enumerate(zip(x.shape, source.shape, strict=True))
        if at != dim % x.dim()
    )


def _index_put(args: tuple[Any, ...], _: Mapping[str, Any]) -> bool:
    shape = selected(args[0].shape, args[1])
    return shape is not None and not is_broadcast(args[2].shape, shape)


def _multinomial(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    x, count = args[:2]
    if not (x.dtype.is_floating_point and 0 < x.dim() <= 2 and count > 0):
        return True
    replaced = args[2] if len(args) > 2 else kwargs.get("replacement", False)
    return x.shape[-1] > MOST_CATEGORIES or (count > x.shape[-1] and not replaced)


def _convolution(args: tuple[Any, ...], _: Mapping[str, Any]) -> bool:
    _input, weight, bias, stride, padding, dilation, transposed, _output, groups = args
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and tuple(bias.shape) != (channels,):
        return True
    return bool(min(*stride, *dilation) <= 0 or min(padding) < 0)


def _permutation(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Returns True if a dtype cannot hold every whole number up to the last."""
    dtype = kwargs.get("dtype") or torch.int64
    return dtype.is_floating_point and args[0] > 2 / torch.finfo(dtype).eps


def _rms_norm(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    x, shape = args[:2]
    weight = args[2] if len(args) > 2 else kwargs.get("weight")
    fits = weight is None or [*weight.shape] == [*shape]
    return not shape or [*x.shape[-len(shape) :]] != [*shape] or not fits


_SUSPECTS: Final[Mapping[Any, _Suspect]] = MappingProxyType(
    {
        _aten.empty_strided.default: lambda args, _: min(args[1], default=0) < 0,
        _aten.new_empty_strided.default: lambda args, _: min(args[2], default=0) < 0,
        _aten.convolution.default: _convolution,
        _aten._softmax.default: partial(_dim, 1),
        _aten.sort.default: partial(_dim, 1),
        _aten.sort.stable: lambda args, kwargs: _dim(2, (*args[:1], None, *args[1:]), kwargs),
        _aten.mode.default: partial(_dim, 1),
        _aten.slice_scatter.default: partial(_written_slice, _aten.slice.Tensor),
        _aten.select_scatter.default: partial(_written_slice, _aten.select.int),
        _aten.diagonal_scatter.default: partial(_written_slice, _aten.diagonal.default),
        _aten.index_add.default: _index_add,
        _aten.index_add_.default: _index_add,
        _aten.index_reduce.default: partial(_word, 4, "reduce", _OF_PLACES),
        _aten.index_reduce_.default: partial(_word, 4, "reduce", _OF_PLACES),
        _aten.segment_reduce.default: partial(_word, 1, "reduce", _OF_SEGMENTS),
        _aten.index_put.default: _index_put,
        _aten.index_put_.default: _index_put,
        _aten.put.default: lambda args, _: args[1].numel() != args[2].numel(),
        _aten.put_.default: lambda args, _: args[1].numel() != args[2].numel(),
        _aten.bucketize.Tensor: lambda args, _: args[1].dim() != 1,
        _aten.bucketize.Scalar: lambda args, _: args[1].dim() != 1,
        _aten.searchsorted.Tensor: partial(_word, 9, "side", _SIDES),
        _aten.searchsorted.Scalar: partial(_word, 9, "side", _SIDES),
        _aten.multinomial.default: _multinomial,
        _aten._fused_rms_norm.default: _rms_norm,
        _aten.randperm.default: _permutation,
        _aten.randperm.generator: _permutation,
    }
)
