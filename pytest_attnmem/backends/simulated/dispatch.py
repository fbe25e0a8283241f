"""PyTorch's own code of an operator under a dispatch key, and the tensors of a call to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def in_cpp(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs the composite in C++; ``decompose`` prefers Python code, which may differ."""
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor that transforms of ``torch.func`` have wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors among the arguments or results of a call, at any depth."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())
