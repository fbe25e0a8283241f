"""The arithmetic of a graph that the host can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Interpreter

from .flex_attention import flex_work
from .host_run import HostGraph
from .host_tensor import HostTensor
from .notes import Layout, Ref
from .work import work


def node_work(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> int:
    """Returns the floating-point operations of one node; 0 for arithmetic of sizes."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return flex_work(args[0], args[2], backward=target.name() == "flex_attention_backward")
    return work(target, args, kwargs, outputs) if isinstance(target, torch._ops.OpOverload) else 0


def graph_work(graph: HostGraph, inputs: Sequence[Any]) -> int:
    """Returns the floating-point operations of a run; what stands for a tensor has a layout."""
    if graph.flops is not None:
        return graph.flops
    counted = _Counted(graph.module)
    with FakeTensorMode(), torch.no_grad():
        counted.run(*map(_fake, inputs))
    return counted.flops


class _Counted(Interpreter):
    """Runs a graph without data, and counts its work."""

    flops = 0

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Returns the result of a node."""
        result = target(*args, **kwargs)
        self.flops += node_work(target, args, kwargs, result)
        return result


def _fake(value: Any) -> Any:
    if isinstance(value, HostTensor):
        value = Layout(value.tensor)
    layout = value.layout if isinstance(value, Ref) else value
    if not isinstance(layout, Layout):
        return value  # a number
    return torch.empty_strided(layout.shape, layout.stride, dtype=layout.dtype)
