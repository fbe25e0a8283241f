"""Windows of signals, as ATen composes them (native/TensorFactories.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi
from types import MappingProxyType
from typing import Any, Final

import torch

_aten = torch.ops.aten


def _of_length(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of a length: a periodic window is one element of a longer one less."""

    def window(length: int, periodic: bool = True, *rest: float, **options: Any) -> Any:
        if length == 0:
            return torch.empty(0, **options)
        if length == 1:
            return torch.ones(1, **options)
        whole = make(length + periodic, *rest, **options)
        return whole.narrow(0, 0, length) if periodic else whole

    return window


def _hamming(length: int, alpha: float = 0.54, beta: float = 0.46, **options: Any) -> Any:
    steps = _numbers(length, options)
    return steps.mul_(pi * 2.0 / (length - 1)).cos_().mul_(-beta).add_(alpha)


def _hann(length: int, **options: Any) -> Any:
    return _hamming(length, 0.5, 0.5, **options)


def _bartlett(length: int, **options: Any) -> Any:
    window = _numbers(length, options).mul_(2.0 / (length - 1))
    half = ((length - 1) >> 1) + 1
    window.narrow(0, half, length - half).mul_(-1).add_(2)
    return window


def _blackman(length: int, **options: Any) -> Any:
    window = _numbers(length, options).mul_(pi / (length - 1))
    fast = window.mul(4).cos_().mul_(0.08)
    slow = window.mul(2).cos_().mul_(0.5)
    difference = fast - slow
    return difference + 0.42


def _numbers(length: int, options: Mapping[str, Any]) -> Any:
    dtype = options.get("dtype") or torch.get_default_dtype()
    return torch.arange(length, **{**options, "dtype": dtype})


WINDOWS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        overload: _of_length(make)
        for packet, make in (
            (_aten.hann_window, _hann),
            (_aten.hamming_window, _hamming),
            (_aten.bartlett_window, _bartlett),
            (_aten.blackman_window, _blackman),
        )
        for overload in (getattr(packet, name) for name in packet.overloads() if "out" not in name)
    }
)
