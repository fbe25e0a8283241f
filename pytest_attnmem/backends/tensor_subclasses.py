"""Constructors of tensor subclasses under dispatch modes.

A subclass without ``__new__``, such as ``torch.nn.attention.bias.CausalBias``, is constructed by
C++ code, which cannot use a tensor that a mode has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

_BY_CPP = torch.Tensor.__new__


def construct_past_modes(apart: Callable[[], AbstractContextManager[Any]] = no_dispatch) -> None:
    """Has all subclasses of ``torch.Tensor`` constructed in the context ``apart``, from now on."""

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        with apart():
            return _BY_CPP(cls, *args, **kwargs)

    def follow(cls: Any) -> None:
        if cls.__new__ is _BY_CPP:
            cls.__new__ = new

    def created(cls: Any, /, **kwargs: Any) -> None:
        super(torch.Tensor, cls).__init_subclass__(**kwargs)
        follow(cls)

    tensor: Any = torch.Tensor
    if "__init_subclass__" not in vars(tensor):
        for cls in _subclasses(tensor):
            follow(cls)
        tensor.__init_subclass__ = classmethod(created)


def _subclasses(cls: Any) -> Iterator[Any]:
    for found in cls.__subclasses__():
        yield found
        yield from _subclasses(found)
