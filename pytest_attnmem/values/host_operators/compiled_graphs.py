"""Compiled graphs, run by PyTorch's own operators instead of the kernels that were made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ..host_graph import HostGraph, HostRun, graph_work

if not hasattr(torch.ops.attnmem, "compiled_graph"):  # torch keeps it if this module is reloaded
    # ``run`` is a GraphRun, and ``inputs`` may have numbers; no dispatcher sees it.
    torch.library.define(
        "attnmem::compiled_graph",
        "(Tensor(a!)[] changed, Tensor[] inputs, int run) -> Tensor[]",
    )

#: The operator that stands for a run of a compiled graph on a tape.
GRAPH: Final = torch.ops.attnmem.compiled_graph.default


@dataclass(frozen=True, slots=True)
class GraphRun:
    """A run of a compiled graph."""

    graph: HostGraph

    def flops(self, changed: Sequence[Any], kept: Sequence[Any]) -> int:
        """Returns the work of the run; what stands for a tensor has a layout."""

        return graph_work(self.graph, joined(self.graph, changed, kept))


def split(graph: HostGraph, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], GraphRun]:
    """Returns the arguments of the operator for a run with these inputs."""
    changed = [inputs[place] for place in sorted(graph.changed)]
    kept = [one for place, one in enumerate(inputs) if place not in graph.changed]
    return changed, kept, GraphRun(graph)


def joined(graph: HostGraph, changed: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
    """Returns the inputs in the order of the graph."""
    written, read = iter(changed), iter(kept)
    places = range(len(changed) + len(kept))
    return [next(written if place in graph.changed else read) for place in places]


def compiled_graph(call: SimpleNamespace) -> Any:
    """Returns the outputs of a compiled graph on tensors of the CPU; some of them it changes."""
    graph: HostGraph = call.run.graph
    return HostRun(graph.module).run(*joined(graph, call.changed, call.inputs))


OPERATORS: Final = MappingProxyType({"attnmem.compiled_graph.default": compiled_graph})
