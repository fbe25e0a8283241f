"""Notes each run of a graph that Inductor compiled as one operator, whose values the host computes.

Inductor gets a graph of PyTorch's operators and makes kernels of it. The values are those of the
graph, so the tape keeps the graph, and the kernels are launched for their memory alone.
"""

from __future__ import annotations

import threading
from functools import partial
from types import ModuleType
from typing import Any

from ...values.host_graph import HostGraph, host_graph
from ...values.host_operators.compiled_graphs import GRAPH, split
from ..import_watch import after_import
from .noting import Noting


class _Compiling(threading.local):
    """The graph that Inductor compiles now, in this thread."""

    graph: HostGraph | None = None


def follow_inductor(noting: Noting) -> None:
    """Makes each graph that Inductor compiles note its runs."""
    compiling = _Compiling()
    after_import("torch._inductor.compile_fx", partial(_keep_graphs, compiling))
    after_import("torch._inductor.output_code", partial(_note_runs, compiling, noting))
    after_import("torch._functorch.config", _compile_graphs)


def _compile_graphs(module: ModuleType) -> None:
    """Turns off the cache whose hits have no graph; Inductor's own cache of kernels stays."""
    config: Any = module
    if hasattr(config, "enable_autograd_cache"):  # since PyTorch 2.5
        config.enable_autograd_cache = False


def _keep_graphs(compiling: _Compiling, module: ModuleType) -> None:
    inductor: Any = module
    if not hasattr(inductor, "_compile_fx_inner"):  # before PyTorch 2.5; its values are not known
        return
    compile_graph = inductor._compile_fx_inner

    def compiled(gm: Any, *args: Any, **kwargs: Any) -> Any:
        before = compiling.graph
        compiling.graph = host_graph(gm)  # the compiler changes the graph
        try:
            return compile_graph(gm, *args, **kwargs)
        finally:
            compiling.graph = before

    inductor._compile_fx_inner = compiled


def _note_runs(compiling: _Compiling, noting: Noting, module: ModuleType) -> None:
    """Makes the code of a graph note its runs, below what may run in its place.

    A selective checkpoint returns earlier results, and does not run the code.
    """
    kind: Any = module
    post_compile = kind.CompiledFxGraph.post_compile

    def completed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling.graph is not None and self.current_callable is not None:
            self.current_callable = partial(_noted, noting, compiling.graph, self.current_callable)
        return post_compile(self, *args, **kwargs)

    kind.CompiledFxGraph.post_compile = completed


def _noted(noting: Noting, graph: HostGraph, run: Any, inputs: Any) -> Any:
    """Returns the outputs of a compiled graph."""
    return noting.as_one(GRAPH, partial(split, graph, inputs), partial(run, inputs), graph.aliases)
