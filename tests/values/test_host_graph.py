"""The graphs that the host can run, made as a compiler gets them: with fake tensors of a device."""

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pytest_attnmem.values.host_graph import graph_work, host_graph
from pytest_attnmem.values.host_operators.compiled_graphs import HostRun
from pytest_attnmem.values.notes import Layout

aten = torch.ops.aten


def traced(function, *shapes, device="cuda"):
    """Returns the graph of a function of tensors that are on a device."""
    with FakeTensorMode():
        made = [torch.empty(shape, device=device) for shape in shapes]
        return make_fx(function)(*made)


def test_a_graph_runs_on_the_host_without_what_it_was_traced_with():
    graph = host_graph(traced(lambda x: (x @ x + torch.ones(2, device="cuda"), x.t()), (2, 2)))
    assert (graph.changed, graph.aliases) == (frozenset(), (False, True))
    assert graph.flops >= 2 * 2 * 2 * 2
    assert not any(node.meta for node in graph.module.graph.nodes)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found, view = HostRun(graph.module).run(x)
    assert (found.tolist(), view.tolist()) == ([[8, 11], [16, 23]], [[1, 3], [2, 4]])


def test_the_work_of_a_graph_with_symbols_is_that_of_the_sizes_of_a_run():
    def product(x, y):
        return (x @ y + y.sum(),)

    env = ShapeEnv()
    size = env.create_symintnode(env.create_symbol(4, ConstantSource("n")), hint=4)
    with FakeTensorMode(shape_env=env):
        made = [torch.empty(size, size, device="cuda") for _ in range(2)]
        symbolic = host_graph(make_fx(product)(*made))
    assert symbolic.flops is None
    inputs = [Layout(torch.empty(32, 32, device="meta")) for _ in range(2)]
    assert graph_work(symbolic, inputs) == host_graph(traced(product, (32, 32), (32, 32))).flops
    assert graph_work(symbolic, inputs) >= 2 * 32**3


def test_the_inputs_that_a_graph_writes_through_a_view_are_known():
    graph = host_graph(traced(lambda x, y: (aten.add_.Tensor(y.view(6), x), x * 2), (6,), (2, 3)))
    assert (graph.changed, graph.aliases) == (frozenset({1}), (True, False))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * torch.rand(2, device="cuda"),),
        lambda x: (x.cpu(),),
        lambda x: (torch.ops._c10d_functional.wait_tensor(x),),
    ],
    ids=["random", "on the host", "not aten"],
)
def test_a_graph_with_what_the_host_does_not_compute_is_none(function):
    assert host_graph(traced(function, (2,))) is None
