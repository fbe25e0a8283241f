"""The modules of a plain program's tensors: forward, backward, recomputed and compiled."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_attnmem.api.attnmem import AttnMem
from pytest_attnmem.backends.tracing.tensor_origin import ModulePaths

TOKENS, WIDTH = 16, 8


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return Squared.apply(self.down(self.up(x).relu()))


class Model(nn.Module):
    def __init__(self, recomputed):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.recomputed = recomputed

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) if self.recomputed is None else self.recomputed(layer, x)
        return x


class Recomputing(Layer):
    """Recomputes itself, as a layer of transformers does: its hooks run once."""

    def forward(self, x):
        return checkpoint(partial(Layer.forward, self), x, use_reentrant=False)


PROGRAMS = {
    "plain": None,
    "recomputed": partial(checkpoint, use_reentrant=False),
    "recomputed by a nested pass": partial(checkpoint, use_reentrant=True),
    "recomputed without its module": lambda layer, x: checkpoint(
        layer.forward, x, use_reentrant=False
    ),
    "recomputed by its own forward": None,
}


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_tensor_has_the_module_that_made_it(program, backend):
    memory = AttnMem(backend=backend)
    device = memory.device
    with memory._primed(None).backend.world():
        model = Model(PROGRAMS[program]).to(device)
        if program == "recomputed by its own forward":
            for layer in model.layers:
                layer.__class__ = Recomputing
        x = torch.ones(TOKENS, WIDTH, device=device, requires_grad=True)

    def step():
        model(x).sum().backward()

    made = memory.measure(step).trace().tensors.allocated
    listed = {(one.module, one.role, one.op) for _, one in made}
    found = {(module, role, op.removesuffix(" (scratch)")) for module, role, op in listed}
    for layer in ("layers.0", "layers.1"):
        expected = {(f"{layer}.up", "addmm"), (f"{layer}.down", "addmm"), (layer, "relu")}
        if program == "recomputed without its module":
            expected = {(path, op) for path, op in expected if path != layer}
        assert expected <= {(module, op) for module, _, op in found}
        assert (f"{layer}.down", "backward", "mm") in found
        own = layer if program != "recomputed without its module" else ""
        role = "backward" if own else ""
        assert {(own, role, "mul"), (own, role, "threshold_backward")} <= found
    if program == "recomputed by its own forward":
        assert ("", "", "relu") not in found


class Picking(Layer):
    """Takes a row between its two layers: a view, which no kernel runs."""

    def forward(self, x):
        return self.down(self.up(x)[0])


@pytest.mark.parametrize("backend", ["cpu", "simulated"])
def test_the_gradient_of_a_view_is_of_the_module_that_made_the_view(backend):
    memory = AttnMem(backend=backend)
    with memory._primed(None).backend.world():
        model = nn.ModuleDict({"inner": Picking()}).to(memory.device)
        x = torch.ones(TOKENS, WIDTH, device=memory.device)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return self.parts["inner"](x)

    whole = Whole()
    made = memory.measure(lambda: whole(x).sum().backward()).trace().tensors.allocated
    found = {one.op: (one.module, one.role) for _, one in made}
    assert found["select_backward"] == ("parts.inner", "backward")


def test_saved_tensors_are_those_that_a_backward_pass_frees():
    memory = AttnMem(backend="simulated")
    with memory._primed(None).backend.world():
        model = Model(None).to("cuda")
        x = torch.ones(TOKENS, WIDTH, device="cuda")
    kept = []

    def step():
        kept.append(model(x))
        with torch.no_grad():
            kept.append(model(x))
        kept[0].sum().backward()

    held = memory.measure(step).trace().held
    saved = {(one.module, one.op) for one in held if one.role == "saved"}
    assert saved == {
        (f"layers.{layer}{part}", op)
        for layer in (0, 1)
        for part, op in ((".down", "addmm"), ("", "relu"), ("", "mul"))
        if (layer, op) != (1, "mul")  # an output, which the program keeps
    }


def test_the_paths_are_those_of_the_model_also_where_a_layer_runs_alone():
    model, paths = Model(None), ModulePaths()
    layer = model.layers[1]
    assert paths.path_of(layer.up, layer) == "up"
    assert paths.path_of(layer.up, model) == "layers.1.up"
    assert paths.path_of(layer.up, layer) == "layers.1.up"  # now that the model is known
    assert paths.path_of(model, model) == ""
    model.layers[1] = replaced = Layer()
    assert paths.path_of(replaced.up, model) == "layers.1.up"


def test_wrappers_are_left_out_of_paths():
    model = Model(None)
    compiled = torch.compile(model, backend="eager")
    assert ModulePaths().path_of(model.layers[0].up, compiled) == "layers.0.up"
