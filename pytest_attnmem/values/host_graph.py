"""The graphs that the host can run as they were given to a compiler, and their arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch._subclasses import fake_tensor
from torch.fx import Graph, GraphModule, Interpreter, Node

from .call import is_plain
from .compute import compute
from .flex_attention import flex, flex_work
from .host_tensor import HostTensor
from .notes import Layout, Ref, leaves, mapped
from .op_traits import HigherOrder, Operator, given, written
from .work import work

#: The mode of tensors without data, and the one that copies tensors to them.
FakeMode: TypeAlias = fake_tensor.FakeTensorMode
FakeCopies: TypeAlias = fake_tensor.FakeCopyMode


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
        if isinstance(target, Operator):
            return compute(target, args, kwargs)
        if isinstance(target, HigherOrder):
            return flex(target, args, backward=target.name() == "flex_attention_backward")
        return target(*args, **kwargs)


def node_work(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> int:
    """Returns the floating-point operations of one node; 0 for arithmetic of sizes."""
    if isinstance(target, HigherOrder):
        return flex_work(args[0], args[2], backward=target.name() == "flex_attention_backward")
    if not isinstance(target, Operator):
        return 0
    return work(target, args, kwargs, outputs)


def graph_work(graph: HostGraph, inputs: Sequence[Any]) -> int:
    """Returns the floating-point operations of a run; what stands for a tensor has a layout."""
    if graph.flops is not None:
        return graph.flops
    counted = _Counted(graph.module)
    with FakeMode(), torch.no_grad():
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


#: The namespaces of the operators that the host computes.
_KNOWN: Final = ("aten::", "prims::")
#: Operators of Inductor's own, which draw random numbers or depend on addresses.
_OF_INDUCTOR: Final = "prims::inductor_"
#: Operators that give a tensor another storage.
_MOVES: Final = frozenset({"aten::set_", "aten::resize_", "aten::resize_as_"})
#: What no operator may do: draw random numbers, or read a value.
_REFUSED: Final = frozenset({torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output})


def host_graph(compiled: GraphModule) -> HostGraph | None:
    """Returns a graph that the host can run; None if it has anything that the host cannot.

    The compiler gets the graph with fake tensors in ``meta["val"]``, which are dropped.
    """
    nodes = [*compiled.graph.nodes]
    inputs = [node for node in nodes if node.op == "placeholder"]
    outputs = [*leaves(nodes[-1].args[0])]
    if not all(map(_is_known, nodes)) or not all(map(_is_followed, (*inputs, *outputs))):
        return None
    places = {_storage(node): place for place, node in enumerate(inputs) if _is_tensor(node)}
    changed = [places.get(_storage(node)) for node in _written(nodes)]
    module = _held(compiled)
    if module is None:
        return None
    return HostGraph(
        module,
        frozenset(place for place in changed if place is not None),
        tuple(_is_tensor(node) and _storage(node) in places for node in outputs),
        _flops(nodes),
    )


def _is_known(node: Node) -> bool:
    """Returns True if the host runs a node as the device does."""
    if node.op != "call_function":
        return node.op in ("placeholder", "output", "get_attr")
    func: Any = node.target
    if isinstance(func, Operator):
        # Its import takes as long as that of half of this package; a compiler has it already.
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        name = func._schema.name
        return (
            name.startswith(_KNOWN)
            and not name.startswith(_OF_INDUCTOR)
            and name not in _MOVES
            and not _REFUSED.intersection(func.tags)
            and not free_unbacked_symbols(node.meta.get("val"))  # its size depends on data
            and all(map(_is_tensor, _written([node])))
        )
    if isinstance(func, HigherOrder):
        return func.name() in ("flex_attention", "flex_attention_backward")
    return getattr(func, "__module__", "") in ("_operator", "math")


def _is_followed(node: Any) -> bool:
    """Returns True for an input or output whose values a tape follows, and for a number."""
    value = node.meta.get("val") if isinstance(node, Node) else node
    if isinstance(value, torch.Tensor):
        return is_plain(value) and value.device.type == "cuda"
    return value is None or isinstance(value, (int, float, bool, torch.SymInt))


def _is_tensor(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _storage(node: Node) -> int:
    return int(node.meta["val"].untyped_storage()._cdata)


def _written(nodes: list[Node]) -> Iterator[Node]:
    """Yields the arguments that operators write."""
    for node in nodes:
        if isinstance(node.target, Operator):
            arguments = given(written(node.target), node.args, node.kwargs)
            yield from (leaf for leaf in leaves(arguments) if isinstance(leaf, Node))


def _held(value: object) -> Any:
    """Returns a graph or an attribute of one for the host; None if it is memory of the device."""
    if isinstance(value, GraphModule):
        names = [str(node.target) for node in value.graph.nodes if node.op == "get_attr"]
        made = {name: _held(getattr(value, name)) for name in names}
        return None if None in made.values() else GraphModule(made, _without_values(value.graph))
    return value.clone() if isinstance(value, torch.Tensor) and value.device.type == "cpu" else None


def _without_values(graph: Graph) -> Graph:
    """Returns a copy that keeps no fake tensor, and makes its tensors on the host."""
    copied = Graph()
    result = copied.graph_copy(graph, {})
    copied.output(result)
    for node in copied.nodes:
        node.meta = {}
        node.args = mapped(_on_host, node.args)
        node.kwargs = {name: mapped(_on_host, arg) for name, arg in node.kwargs.items()}
    return copied


def _on_host(arg: Any) -> Any:
    return torch.device("cpu") if isinstance(arg, torch.device) else arg


def _flops(nodes: list[Node]) -> int | None:
    """Returns the work of nodes; None if a size is a symbol."""
    values = [*leaves([node.meta.get("val") for node in nodes])]
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    if any(isinstance(one, torch.SymInt) for one in (*values, *sizes)):
        return None
    called = (node for node in nodes if node.op == "call_function")
    parts = ((node.target, *mapped(_value, (node.args, node.kwargs, node))) for node in called)
    return sum(node_work(*part) for part in parts)


def _value(arg: Any) -> Any:
    return arg.meta.get("val") if isinstance(arg, Node) else arg
