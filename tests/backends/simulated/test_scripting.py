"""TorchScript in programs on the simulated device: what it compiles, keeps and fails with."""

import pytest
import torch

SUITE = """
import pytest, torch
from torch import nn

budget = pytest.mark.memory_budget("1 MiB")

@torch.jit.script
def adding(x, y):
    return x + y

@torch.jit.script
def with_constant(x):
    return x + torch.ones(4)

@torch.jit.script
def with_data(x):
    return x + torch.tensor([1.0, 2.0], device=x.device)

@torch.jit.script
def moving(x):
    return x.cuda()

@torch.jit.script
def branching(x):
    return x * 2 if bool(x.sum() > 0) else x

@torch.jit.script
def listing(x):
    return torch.cat([x, torch.zeros(3, 3, device=x.device)])

@pytest.fixture
def moved():
    return torch.jit.script(nn.Linear(2, 2)).cuda()

@pytest.fixture
def model():
    return torch.jit.script(nn.Linear(2, 2))

LAYERS = {
    "attention": (lambda: nn.MultiheadAttention(8, 2), 3),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0), 1),
    "decoder": (lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0), 2),
    "norm": (lambda: nn.LayerNorm(8), 1),
    "cell": (lambda: nn.GRUCell(8, 8), 1),
}

@budget
@pytest.mark.parametrize("kind", LAYERS)
def test_layer(kind):
    make, inputs = LAYERS[kind]
    layer = torch.jit.script(make())
    out = layer(*[torch.ones(*(3, 2, 8)[kind == "cell":])] * inputs)
    (out[0] if isinstance(out, tuple) else out).sum().backward()

@pytest.mark.memory_budget(3 * 16, exact=True)
def test_constant():
    with_constant(torch.ones(4))

@pytest.mark.memory_budget(16, exact=True)
def test_constant_of_another_device():
    with_constant(torch.ones(4, device="cpu"))
    torch.ones(4, device="cuda")

@pytest.mark.memory_budget(16, exact=True)
def test_branch():
    assert branching(torch.ones(2)).tolist() == [2.0, 2.0]

@pytest.mark.memory_budget(56, exact=True)
def test_model(model):
    model(torch.ones(2, 2)).sum().backward()

@budget
def test_data():
    with_data(torch.ones(2))

@budget
def test_device():
    moving(torch.ones(2))

@budget
def test_loaded(tmp_path):
    torch.jit.save(torch.jit.script(nn.ReLU()), tmp_path / "script")
    torch.jit.load(tmp_path / "script")

@budget
def test_moved(moved):
    pass

@budget
def test_lengths():
    loss = torch.jit.script(nn.CTCLoss())
    scores = torch.randn(9, 2, 5, device="cuda").log_softmax(2)
    targets = torch.ones(2, 3, dtype=torch.long, device="cuda")
    loss(scores, targets, torch.tensor([9, 9]), torch.tensor([3, 3]))

@budget
def test_mixed():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        adding(torch.ones(2, device="cuda"), torch.ones(2))

@pytest.mark.memory_budget("1 MiB", metric="retained")
def test_error():
    with pytest.raises(RuntimeError, match="Sizes of tensors must match except in dimension 0"):
        listing(torch.ones(2, 2, device="cuda"))
"""


def test_scripts(suite):
    suite.write(SUITE)
    options = "--attnmem-backend=simulated", "--attnmem-strict=off", "-Wignore:`torch.jit"
    ran = suite.run(*options)
    assert ran.outcomes == {"passed": 16}
    assert ran.row("test_error", metric="retained")["retained_bytes"] == 0


def several(x):
    return (x * 2 + 1).exp()


def single(x):
    return x.softmax(-1)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_a_script_that_is_called_again_is_refused(run):
    """One kernel has nothing to be fused with."""

    fused, alone = torch.jit.script(several), torch.jit.script(single)

    def once(script):
        script(torch.ones(4, 4, device="cuda"))

    assert run(lambda: once(fused)).unmeasured is None
    refusal = run(lambda: once(fused)).unmeasured
    assert refusal.startswith("TorchScript fuses the kernels of a script that is called again at ")
    assert refusal.endswith(
        ", which cannot be simulated; set PYTORCH_JIT=0, which runs scripts as Python, or use"
        " backend='null' or 'cuda'"
    )
    for _ in range(2):
        assert run(lambda: once(alone)).unmeasured is None


def twice(x):
    return x * 2


def traced():
    script = torch.jit.trace(twice, torch.ones(2, device="cuda"))
    return script(torch.ones(3, device="cuda")).tolist()


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace")
@pytest.mark.parametrize("anywhere", ["outside"], indirect=True)
def test_code_traced_outside_windows_runs(anywhere):
    assert traced() == [2, 2, 2]


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace")
def test_a_trace_inside_a_window_takes_what_it_takes_on_the_null_device(returned):
    assert returned(traced) == [2, 2, 2]
