"""The results of convolutions, laid out as on CUDA: kernels for ``meta``."""

from __future__ import annotations

from typing import Any

import torch
from torch import _meta_registrations

from . import array
from .array import PLAIN, Array, common_format, made
from .layer import Layer, Library, layer, library


def forward(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, more: Any, groups: int,
) -> Any:  # fmt: skip
    """Returns the result of ``convolution``."""
    options = (stride, padding, dilation, transposed, more, groups)
    plain = _meta_registrations.meta_conv(input, weight, bias, *options)  # checks the sizes
    found = layer(input, weight, *options)
    if found is None:
        return plain
    out = _result(found)
    return _empty(out if found.signal is None else out.as_1d())


def backward(
    grad: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, more: Any, groups: int, wanted: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Returns the gradients of ``convolution_backward``: None for those not wanted."""
    options = (stride, padding, dilation, transposed, more, groups)
    found = layer(input, weight, *options)
    if found is None:
        plain: tuple[Any, ...] = _meta_registrations.meta_convolution_backward(
            grad, input, weight, bias_sizes, *options, wanted
        )
        return plain
    of_out = array.of(grad)
    if found.signal is None:
        made_for = gradients(found, of_out, wanted[1])
    else:
        of_input, of_weight = gradients(found, of_out.as_2d(), wanted[1])
        made_for = (of_input.as_1d(), of_weight.as_1d())
    features = weight.shape[1] * groups if transposed else weight.shape[0]
    arrays = (*made_for, made((features,), weight.dtype))
    return tuple(_empty(one) if asked else None for one, asked in zip(arrays, wanted, strict=True))


def _result(layer: Layer) -> Array:
    """Returns the layout of a convolution's result, as an image if it is a signal."""
    memory_format = PLAIN
    if library(layer) is Library.CUDNN:
        before = common_format(layer.input, layer.weight)
        memory_format = common_format(layer.input.contiguous(before), layer.weight)
    return made(layer.output_shape, layer.input.dtype, memory_format)


def gradients(layer: Layer, grad: Array, of_weight: bool) -> tuple[Array, Array]:
    """Returns the layouts of the gradients of input and weight (``ConvShared.cpp``)."""
    of_input, weight_format = PLAIN, PLAIN
    if library(layer) is Library.CUDNN:
        x = read_in_backward(layer, of_weight)
        grad = grad_for_cudnn(layer, x, grad)
        of_input, weight_format = common_format(grad, layer.weight), common_format(x, grad)
    x_shape, w = layer.input.shape, layer.weight
    return made(x_shape, w.dtype, of_input), made(w.shape, w.dtype, weight_format)


def read_in_backward(layer: Layer, of_weight: bool) -> Array:
    """Returns the input as cuDNN's backward gets it: the gradient of the weight needs a copy."""
    if not of_weight:
        return layer.input
    return layer.input.contiguous(common_format(layer.input, layer.weight))


def grad_for_cudnn(layer: Layer, x: Array, grad: Array) -> Array:
    """Returns the gradient of the result in the input's memory format.

    That of a transposed convolution has no gaps besides.
    """
    if layer.transposed:
        return grad.contiguous(x.format)
    return grad if grad.format is x.format else made(grad.shape, grad.dtype, x.format)


def _empty(one: Array) -> Any:
    return torch.empty_strided(one.shape, one.strides, dtype=one.dtype, device="meta")
