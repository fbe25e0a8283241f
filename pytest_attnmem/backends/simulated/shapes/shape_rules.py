"""Shapes and layouts of results that PyTorch has no rule for, or another, as kernels for ``meta``.

PyTorch's rules of shapes are Python code of several operators, which may take the layout of another
input than the kernel does. Sources: aten/src/ATen/native/cuda: MultiMarginLoss.cu,
MultiLabelMarginCriterion.cu, FractionalMaxPool3d.cu, LossCTC.cu, Normalization.cu, Nonzero.cu,
Activation.cu and RreluWithNoise.cu; aten/src/ATen/native: Activation.cpp, BinaryOps.cpp, Loss.cpp,
TensorShape.cpp, FunctionalInverses.cpp, cudnn/MHA.cpp and BatchLinearAlgebra.cpp. Convolutions are
in ``convolution/shapes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

from ..convolution import shapes as convolution
from ..convolution.cudnn_choices import cudnn_gradients, cudnn_samples
from ..scratch.plan_parts import suggested_format
from ..scratch.strides import dense_without_overlap

_aten = torch.ops.aten


def _contiguous(x: Any) -> Any:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _like_first(x: Any, *_: Any, **__: Any) -> Any:
    return _contiguous(x)


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
        _aten.rrelu_with_noise.default: _like_first,
        _aten.rrelu_with_noise_backward.default: _random_slopes_backward,
        **dict.fromkeys(OF_STORAGES, _scattered),
    }
)


_aten = torch.ops.aten


def _lstm_cell(
    input_gates: torch.Tensor, _hidden: torch.Tensor, cx: torch.Tensor, *_: object
) -> tuple[torch.Tensor, ...]:
    """Returns the state [B, H], the cell [B, H] and the four gates [B, 4H]."""
    return _contiguous(cx), _contiguous(cx), _contiguous(input_gates)


def _lstm_cell_backward(
    _grad_hy: object, _grad_cy: object, cx: torch.Tensor, _cy: object, gates: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
    """Returns the gradients of the gates [B, 4H], the cell [B, H] and the bias [4H]."""
    of_bias = gates.new_empty(gates.shape[1]) if has_bias else None
    return _contiguous(gates), _contiguous(cx), of_bias


def _gru_cell(
    _input: torch.Tensor, _hidden: torch.Tensor, hx: torch.Tensor, *_: object
) -> tuple[torch.Tensor, ...]:
    """Returns the state [B, H] and the gates [B, 5H]."""
    return _contiguous(hx), hx.new_empty(hx.shape[0], hx.shape[1] * 5)


def _gru_cell_backward(
    grad_hy: torch.Tensor, gates: torch.Tensor, has_bias: bool
) -> tuple[torch.Tensor | None, ...]:
    """Returns the gradients of both gates [B, 3H], the state [B, H] and the biases [3H]."""
    batch, width = gates.shape[0], gates.shape[1] // 5 * 3
    of_gates = (gates.new_empty(batch, width), gates.new_empty(batch, width))
    biases = (gates.new_empty(width) if has_bias else None for _ in of_gates)
    return (*of_gates, _contiguous(grad_hy), *biases)


#: The kernels for ``meta`` by operator.
CELLS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten._thnn_fused_lstm_cell.default: _lstm_cell,
        _aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
        _aten._thnn_fused_gru_cell.default: _gru_cell,
        _aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
    }
)


_CHANNELS_LAST: Final = MappingProxyType({4: torch.channels_last, 5: torch.channels_last_3d})


def _like_second(grad: Any, x: Any, *_: Any, **__: Any) -> Any:
    return _contiguous(x)


def _places(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """Returns places column by column, as CUDA's kernel lays them out (Nonzero.cu)."""
    shape, strides = (size, x.dim()), (1, max(size, 1))
    return torch.empty_strided(shape, strides, dtype=torch.int64, device="meta")


def _laid_out_like(query: Any, shape: tuple[int, ...]) -> Any:
    """Returns a tensor with its dimensions in the query's order (``MHA.cpp``)."""
    if query.shape == shape:
        # A packed q, k, v has gaps, which the result leaves out; other strides stay as they are.
        if dense_without_overlap(query.shape, query.stride()):
            return query.new_empty_strided(shape, query.stride())
        return torch.empty_like(query)
    order = sorted(range(len(shape)), key=query.stride)[::-1]  # of equal strides, the last is outer
    made = query.new_empty([shape[dim] for dim in order])
    return made.permute([order.index(dim) for dim in range(len(shape))])


def _cudnn_attention(
    query: Any, key: Any, value: Any, bias: Any, compute_log_sumexp: bool, *_: Any, **__: Any
) -> tuple[Any, ...]:
    """Returns what cuDNN's attention does: without gradients there is no log-sum-exp."""
    (B, H, N, _d), (M, dv) = query.shape, value.shape[2:]
    out = _laid_out_like(query, (B, H, N, dv))
    sums = query.new_empty((B, H, N, 1), dtype=torch.float32) if compute_log_sumexp else None
    seed, offset = (torch.empty((), dtype=torch.int64, device="meta") for _ in range(2))
    return (out, sums, None, None, N, M, seed, offset, None)


def _efficient_backward(
    _grad: Any, query: Any, key: Any, value: Any, bias: Any, *rest: Any, **_: Any
) -> tuple[Any, ...]:
    """Returns contiguous gradients; PyTorch's rule has other arguments than its operator."""
    of_bias = torch.empty_like(bias) if bias is not None and rest[-1] else None
    return *map(_contiguous, (query, key, value)), of_bias


def _written(*_: Any, **__: Any) -> None:
    """Returns nothing: the results are given, in their sizes."""


def _batch_norm_backward(
    _grad: Any,
    x: Any,
    weight: Any,
    _mean: Any,
    _variance: Any,
    _saved_mean: Any,
    _saved_invstd: Any,
    train: bool,
    _eps: float,
    wanted: list[bool],
) -> tuple[Any, ...]:
    """Returns contiguous gradients, in training in the format of an image in channels-last format.

    See ``batch_norm_backward_cuda`` in Normalization.cu.
    """
    layout = torch.contiguous_format
    if train and x.dim() in _CHANNELS_LAST:
        last = _CHANNELS_LAST[x.dim()]
        suggested = suggested_format(x) is last  # one channel may be in either format
        layout = last if suggested and x.is_contiguous(memory_format=last) else layout
    of_input = torch.empty_like(x, memory_format=layout) if wanted[0] else None
    if of_input is not None and train and x.is_contiguous() and x.stride(1) == 1:
        of_input = x.new_empty_strided(x.shape, x.stride())  # by the kernels for channels-last
    of_weights = (
        torch.empty_like(weight) if asked and weight is not None else None for asked in wanted[1:]
    )
    return (of_input, *of_weights)


def _norm_backward(_grad: Any, x: Any, _shape: Any, *rest: Any) -> tuple[Any, ...]:
    """Returns contiguous gradients of a norm of rows (``layer_norm_backward_cuda``).

    The mean of layer norm, and the root mean square, come before the weight and the bias.
    """
    *others, wanted = rest
    weights = others[1 - len(wanted) :]
    pairs = zip((x, *weights), wanted, strict=True)
    return tuple(_contiguous(one) if asked and one is not None else None for one, asked in pairs)


def _log_softmax_backward(grad: Any, _output: Any, _dim: int, input_dtype: torch.dtype) -> Any:
    return torch.empty_like(grad, dtype=input_dtype, memory_format=torch.contiguous_format)


def _cross_entropy(x: Any, _target: Any, _weight: Any = None, reduction: int = 1) -> Any:
    return reduced_in_place(torch.empty_like(x), reduction)


def _nearest(x: Any, output_size: list[int], *_: Any, **__: Any) -> Any:
    """Returns what ``upsample_nearest`` does; PyTorch's rule fails for an empty batch.

    x: [B, C, *sizes] -> [B, C, *output_size]
    """
    made = x.new_empty((*x.shape[:2], *output_size))
    return made.contiguous(memory_format=suggested_format(x))


#: Operators whose results have another layout on CUDA than in PyTorch's rules of shapes.
LAYOUTS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        **LOOPS,
        _aten.convolution.default: convolution.forward,
        _aten.convolution_backward.default: convolution.backward,
        _aten.native_batch_norm_backward.default: _batch_norm_backward,
        _aten.native_layer_norm_backward.default: _norm_backward,
        _aten._fused_rms_norm_backward.default: _norm_backward,
        _aten._log_softmax_backward_data.default: _log_softmax_backward,
        **{
            getattr(_aten, f"{kind}{rank}d").default: _nearest
            for kind in ("upsample_nearest", "_upsample_nearest_exact")
            for rank in (1, 2, 3)
        },
        **dict.fromkeys(
            (
                *(_aten.poisson.default, _aten.binomial.default, _aten._dirichlet_grad.default),
                _aten._sample_dirichlet.default,
                *(_aten._standard_gamma.default, _aten._standard_gamma_grad.default),
            ),
            _like_first,
        ),
        _aten.mse_loss_backward.default: _like_second,
        _aten.smooth_l1_loss_backward.default: _like_second,
        _aten.huber_loss_backward.default: _like_second,
        _aten.binary_cross_entropy.default: _cross_entropy,
        _aten.binary_cross_entropy_backward.default: lambda _, x, *__: torch.empty_like(x),
    }
)
#: The kernels by operator; the first argument of most is a gradient, the second the input.
SHAPES: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        **{
            getattr(_aten, f"_fused_{name}_").tensor_lr: _written
            for name in ("adam", "adamw", "sgd", "adagrad")
        },
        _aten._fused_sgd_.default: _written,
        _aten._fused_adagrad_.default: _written,
        **dict.fromkeys((_aten._cummax_helper.default, _aten._cummin_helper.default), _written),
        _aten.addbmm_.default: lambda x, *_, **__: x,
        _aten._logcumsumexp.out: lambda x, _, *, out: out.resize_(x.shape),
        _aten.nonzero_static.default: _places,
        _aten.glu_jvp.default: lambda glu, *_: torch.empty_like(glu),
        _aten._scaled_dot_product_cudnn_attention.default: _cudnn_attention,
        _aten._efficient_attention_backward.default: _efficient_backward,
        _aten.cudnn_grid_sampler.default: cudnn_samples,
        _aten.cudnn_grid_sampler_backward.default: cudnn_gradients,
        **LAYOUTS,
        **CELLS,
        **dict.fromkeys(
            (
                *(
                    _aten.multi_margin_loss_backward.default,
                    _aten.fractional_max_pool3d_backward.default,
                ),
                _aten.multilabel_margin_loss_backward.default,
                _aten._ctc_loss_backward.default,
                _aten._ctc_loss_backward.Tensor,
            ),
            _like_second,
        ),
    }
)
