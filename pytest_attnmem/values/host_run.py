"""Runs a graph of operators on the host, in the place of the kernels that were compiled of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter

from .flex_attention import flex_backward, flex_forward


@dataclass(frozen=True, slots=True)
class HostGraph:
    """A compiled graph, and the use that it makes of its inputs."""

    module: GraphModule
    changed: frozenset[int]
    """The positions of the inputs that it writes."""
    aliases: tuple[bool, ...]
    """True for each output that is an input, or a view of one."""
    flops: int | None
    """The work of a run; None if it depends on the sizes of the inputs."""


class HostRun(Interpreter):
    """Runs a graph on the host, each operator as the host runs one that a tape noted."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Returns the result of a node."""
        from .compute import compute  # it imports the operators of the host, and they this module

        if isinstance(target, torch._ops.OpOverload):
            return compute(target, args, kwargs)
        if isinstance(target, torch._ops.HigherOrderOperator):
            backward = target.name() == "flex_attention_backward"
            return (flex_backward if backward else flex_forward)(target, args)
        return target(*args, **kwargs)
