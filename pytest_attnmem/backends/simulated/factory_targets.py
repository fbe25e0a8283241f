"""Functions that fill a tensor of the program, ``out=``, and name its device too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def without_targets_device(kwargs: Mapping[str, Any], on: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns the keywords of a factory without the device that its target is on already.

    C++ code sees the two on different devices. ``on`` returns the device that a program names.
    """
    target, given = kwargs.get("out"), kwargs.get("device")
    same = isinstance(target, torch.Tensor) and given is not None and on(given) == target.device
    return {name: value for name, value in kwargs.items() if not (same and name == "device")}


def with_device(kwargs: Mapping[str, Any], on: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns the keywords of a function that is no factory, with the device that they name."""
    kwargs = without_targets_device(kwargs, on)
    return {**kwargs, "device": on(kwargs["device"])} if "device" in kwargs else kwargs
