"""A convolution as PyTorch hands it to a library, and which library that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any, Final, NamedTuple

import torch

from ..scratch.deterministic import is_deterministic
from . import array
from .array import PLAIN, Array, common_format


class CudnnSettings(NamedTuple):
    """The settings of ``torch.backends.cudnn`` that are in force."""

    enabled: bool
    benchmark: bool
    deterministic: bool
    tf32: bool


def cudnn_settings() -> CudnnSettings:
    """Returns the settings of the process (``at::convolution`` in Convolution.cpp reads them)."""
    return CudnnSettings(
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_benchmark(),
        torch._C._get_cudnn_deterministic() or is_deterministic(),
        torch._C._get_fp32_precision_getter("cuda", "conv") == "tf32",
    )


_MOST_ELEMENTS: Final = 2**31 - 1  # of a tensor that a kernel indexes by 32 bits
_DTYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Library(Enum):
    """Who computes a convolution."""

    CUDNN = auto()
    DEPTHWISE = auto()
    """PyTorch's own kernels for one channel a group."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The operands and options of a convolution; a signal has become an image of height 1."""

    input: Array
    weight: Array
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    more: tuple[int, ...]
    """The padding of the output."""
    groups: int
    signal: Array | None
    """The input before PyTorch made it contiguous, if it is a signal."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Returns the sizes of the result (``conv_output_size`` and ``conv_input_size``)."""
        x, w = self.input.shape, self.weight.shape
        edges = zip(x[2:], w[2:], self.stride, self.padding, self.dilation, self.more, strict=True)
        if self.transposed:
            sizes = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in edges]
            return (x[0], w[1] * self.groups, *sizes)
        made = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in edges)
        return (x[0], w[0], *made)

    @property
    def depthwise(self) -> bool:
        """Returns True if each channel of the input is a group."""
        channels = self.input.shape[1]
        by_group = channels == self.groups > 1 and self.weight.shape[0] % channels == 0
        return not self.transposed and by_group


def layer(
    input: Any, weight: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, more: Sequence[int], groups: int,
) -> Layer | None:  # fmt: skip
    """Returns the convolution of these arguments; None if its sizes or dtypes are unusual."""
    x, w = array.of(input), array.of(weight)
    rank = len(w.shape) - 2
    if x.dtype not in _DTYPES or x.dtype != w.dtype or not 1 <= rank <= 3:
        return None
    stride, padding, dilation, more = (
        (*each,) * (rank if len(each) == 1 else 1) for each in (stride, padding, dilation, more)
    )
    signal = None
    if rank == 1:
        signal, x, w = x, x.contiguous(PLAIN).as_2d(), w.as_2d()
        stride, padding, dilation, more = (1, *stride), (0, *padding), (1, *dilation), (0, *more)
    found = Layer(x, w, stride, padding, dilation, transposed, more, groups, signal)
    # an empty tensor takes another way
    return found if prod(x.shape) and prod(w.shape) and prod(found.output_shape) else None


def library(layer: Layer) -> Library | None:
    """Returns who computes a convolution (``_select_conv_backend`` of Convolution.cpp).

    Returns None if it is neither cuDNN nor a kernel for one channel a group.
    """
    enabled = cudnn_settings().enabled
    if layer.depthwise:
        if max(prod(layer.input.shape), prod(layer.weight.shape)) > _MOST_ELEMENTS:
            return None
        return Library.CUDNN if enabled and _cudnn_for_depthwise(layer) else Library.DEPTHWISE
    big = any(more >= step for more, step in zip(layer.more, layer.stride, strict=True))
    return Library.CUDNN if enabled and not big else None


def _cudnn_for_depthwise(layer: Layer) -> bool:
    """Returns True if cuDNN is faster for one channel a group (``use_cudnn_depthwise``)."""
    if common_format(layer.input, layer.weight) is not PLAIN:
        return True
    (_, channels, height, _), rank = layer.input.shape[:4], len(layer.input.shape)
    undilated = all(step == 1 for step in layer.dilation)
    square = layer.stride[0] == layer.stride[1] or height == 1
    suits = layer.input.dtype is torch.float16 and rank == 4 and undilated and square
    return suits and channels >= 32 and _is_faster(layer)


def _is_faster(layer: Layer) -> bool:
    """Returns PyTorch's guess, from measurements (``check_cudnn_depthwise_workload…``)."""
    (batch, channels, height, width), stride = layer.input.shape, layer.stride[1]
    (rows, size) = layer.weight.shape[2:]
    if height == 1 and stride == 1:
        return True
    if rows != size or size not in (1, 3, 5) or width < 7 or stride not in (1, 2):
        return False
    if stride == 1:
        return True
    if batch == 1:
        return size != 1 or width <= 28
    if size == 1:
        return batch <= 16 and channels >= 128 and width <= 7
    return channels >= 512 or (channels >= 256 and width >= 28)
