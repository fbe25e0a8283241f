"""Results of kernels over a TensorIterator, and of scatters, whose layout PyTorch's rules miss.

The rules of shapes are Python code of several operators, which may take the layout of another input
than the kernel does. Sources: aten/src/ATen/native/{Activation,BinaryOps}.cpp and
{Loss,TensorShape,FunctionalInverses}.cpp, native/cuda/{Activation,RreluWithNoise}.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

_aten = torch.ops.aten


def _as_first_operand(first: Any, second: Any, *_: Any, **__: Any) -> Any:
    """Returns the result of a TensorIterator over two inputs, the first of which leads."""
    return _aten.add.Tensor(first, second)


def _as_quotient(first: Any, second: Any) -> Any:
    """Returns the same in floating point, which integers become."""
    return _aten.div.Tensor(first, second)


def _as_second_operand(grad: Any, x: Any, *_: Any, **__: Any) -> Any:
    return _aten.add.Tensor(x, grad)


def _elu_backward(
    grad: Any, _alpha: Any, _scale: Any, _input_scale: Any, _is_result: bool, x: Any
) -> Any:
    return _aten.add.Tensor(grad, x)


def _huber_loss(x: Any, target: Any, reduction: int = 1, _delta: float = 1.0) -> Any:
    loss = torch.empty_like(x) if x.shape == target.shape else _aten.add.Tensor(x, target)
    return x.new_empty(()) if reduction else loss


def _loss(x: Any, target: Any, reduction: int = 1, *_: Any) -> Any:
    return reduced_in_place(_aten.add.Tensor(x, target), reduction)


def reduced_in_place(losses: Any, reduction: int) -> Any:
    """Returns the result of a loss whose mean or sum keeps the storage of all losses."""
    if not reduction:
        return losses
    return losses.as_strided((), ()) if losses.numel() else losses.new_empty(())


def _log_sigmoid(x: Any) -> tuple[Any, Any]:
    """Returns the result, and the empty buffer that CUDA saves."""
    return torch.empty_like(x), x.new_empty(0)


def _random_slopes(x: Any, *_: Any, **__: Any) -> Any:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _random_slopes_backward(
    grad: Any, x: Any, noise: Any, lower: float, upper: float, training: bool, *_: Any
) -> Any:
    if training and upper - lower > 1e-6:
        return _aten.mul.Tensor(noise, grad)
    return _aten.add.Tensor(x, grad)


def _scattered(x: Any, *_: Any, **__: Any) -> Any:
    """Returns a view of a copy of the whole storage, as ``clone_preserve_strides`` does."""
    if _overlaps(x):
        return _aten.clone.default(x)
    whole = x.new_empty(x.untyped_storage().nbytes() // x.itemsize)
    return whole.as_strided(x.size(), x.stride(), x.storage_offset())


def _overlaps(x: Any) -> bool:
    """Returns ``has_internal_overlap`` (MemoryOverlap.cpp): an expanded dimension."""
    return any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))


#: Operators whose result depends on the size of a storage.
OF_STORAGES: Final = (
    _aten.slice_scatter.default,
    _aten.select_scatter.default,
    _aten.diagonal_scatter.default,
    _aten.as_strided_scatter.default,
)
#: The results by operator, as kernels for ``meta``.
LOOPS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(_aten.logit_backward.default, _aten.hardsigmoid_backward.default),
                *(_aten.softplus_backward.default, _aten.hardtanh_backward.default),
                _aten.hardswish_backward.default,
                *(_aten.floor_divide.default, _aten.div.Tensor_mode),
            ),
            _as_first_operand,
        ),
        **dict.fromkeys(
            (_aten.xlogy.Tensor, _aten.special_xlog1py.default, _aten.copysign.Tensor),
            _as_quotient,
        ),
        _aten.log_sigmoid_backward.default: lambda grad, *_: torch.empty_like(grad),
        _aten.leaky_relu_backward.default: _as_second_operand,
        _aten.threshold_backward.default: _as_second_operand,
        _aten.huber_loss.default: _huber_loss,
        _aten.mse_loss.default: _loss,
        _aten.smooth_l1_loss.default: _loss,
        _aten.elu_backward.default: _elu_backward,
        _aten.log_sigmoid_forward.default: _log_sigmoid,
        _aten.rrelu_with_noise.default: _random_slopes,
        _aten.rrelu_with_noise_backward.default: _random_slopes_backward,
        **dict.fromkeys(OF_STORAGES, _scattered),
    }
)
