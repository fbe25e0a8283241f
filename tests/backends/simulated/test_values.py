"""Programs that read values: one line says which call, where, and what to do."""

import math
from contextlib import suppress

import numpy
import pytest
import torch

from pytest_attnmem.backends import simulated
from pytest_attnmem.backends.simulated.session.process import process_device
from pytest_attnmem.errors import BackendUnavailable, CannotSimulate

READING = (
    lambda x: x.sum().item(),
    lambda x: x.tolist(),
    lambda x: numpy.asarray(x.cpu()),
    lambda x: torch.allclose(x, x),
    lambda x: torch.equal(x, x),
    lambda x: bool(x.any()),
    lambda x: print(x),
)
SIZED = (lambda x: x[x > 0], lambda x: torch.nonzero(x), lambda x: torch.unique(x))


def lose(x):
    """Makes the values of a simulated tensor unknown, as a kernel does that is not PyTorch's."""
    process_device().tape.lose(x, "a kernel wrote it")


@pytest.mark.parametrize("read", [*READING, *SIZED])
def test_the_line_is_named_that_needs_a_value(backends, read):
    with backends().world():
        x = torch.ones(2, 2, device="cuda")
        lose(x)
        with pytest.raises(CannotSimulate) as refused:
            read(x)
    line = read.__code__.co_firstlineno
    assert str(refused.value) == (
        f"the program needs the values of a tensor at test_values.py:{line}, which are not known:"
        " a kernel wrote it; use backend='cpu' for this test"
    )


def test_a_read_value_is_not_enforced_even_if_the_error_is_caught(run):
    def program():
        x = torch.ones(2, device="cuda")
        lose(x)
        with suppress(CannotSimulate):
            x.sum().item()
        return x

    assert run(program).unmeasured.startswith("the program needs the values")


def test_printing_a_tensor_in_a_handler_does_not_hide_the_first_error(run):
    def program():
        x = torch.ones(2, device="cuda")
        lose(x)
        try:
            bool(x.any())
        except CannotSimulate:
            str(x)

    with pytest.raises(CannotSimulate, match="the program needs the values"):
        run(program)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")
def test_compiled_code_is_not_simulated(run):
    def twice(x):
        return x * 2

    compiled = torch.compile(twice)
    x = torch.ones(4)
    assert run(lambda: compiled(x)).unmeasured == "compiled code cannot be simulated"
    assert run(lambda: torch.compile(twice)(x)).unmeasured == "compiled code cannot be simulated"
    assert run(lambda: torch.compile(twice, backend="eager")(x)).unmeasured is None
    assert run(lambda: torch.compile(disable=True)(twice)(x)).unmeasured is None


@pytest.mark.parametrize(
    ("rows", "weights", "dtype", "profile"),
    [
        ((6, 8), (2, 8, 4), torch.float32, "A100-80GB"),
        ((4, 6), (6, 8), torch.float32, "A100-80GB"),
        ((2, 4, 8), (8, 6), torch.float32, "A100-80GB"),
        ((6, 8), (2, 8, 16), torch.bfloat16, "H100"),  # in one kernel, which has a rule
    ],
)
def test_grouped_products_have_the_values_of_the_cpu(backends, rows, weights, dtype, profile):
    def program(device):
        a = torch.arange(float(math.prod(rows))).view(rows).to(device, dtype).requires_grad_()
        b = torch.arange(float(math.prod(weights))).view(weights).to(device, dtype)
        ends = torch.tensor([2, 6], dtype=torch.int32).to(device)
        return torch._grouped_mm(a, b, offs=ends)

    with backends(profile).world():
        found = program("cuda").tolist()
    assert found == program("cpu").tolist()


def test_a_torch_without_the_private_apis_is_refused_by_name(monkeypatch):
    def lacking(_):
        return torch._C.nothing

    monkeypatch.setattr(simulated, "Simulated", lacking)
    with pytest.raises(BackendUnavailable) as refused:
        simulated.open_backend("")
    assert str(refused.value) == (
        f"backend 'simulated' does not run on torch {torch.__version__}: module 'torch._C' has no"
        " attribute 'nothing'"
    )


def test_an_overload_that_does_not_fit_costs_nothing(run):
    def program():  # lerp_ asks for an overload, and C++ describes the tensors for each that fails
        x = torch.zeros(1024, device="cuda").lerp_(torch.ones(1, device="cuda"), torch.tensor(0.5))
        return x.sum()

    found = run(program)
    assert found.unmeasured is None
    assert not torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python)


@pytest.mark.parametrize(
    ("weight", "limit", "states"), [(1, 10**12, 2), (1e30, 10**12, 0), (1e30, 10, 2)]
)
def test_a_gradient_that_is_infinite_skips_the_step(backends, weight, limit, states):
    backend = backends()
    backend.limit_values(limit)
    try:
        with backend.world():
            layer = torch.nn.Linear(8, 8, device="cuda")
            optimizer, scaler = torch.optim.Adam(layer.parameters()), torch.amp.GradScaler("cuda")
            loss = (layer(torch.ones(2, 8, device="cuda")) * weight).sum() * weight
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            assert len(optimizer.state) == states
    finally:
        backend.limit_values(10**12)


def test_a_tensor_of_another_storage_has_its_values(run):
    def read():
        x = torch.arange(5.0, 9.0).to("cuda")
        whole = torch.empty(0, device="cuda").set_(x.untyped_storage())
        part = torch.tensor([], device="cuda").set_(x.untyped_storage(), 1, (2,))
        assert (whole.tolist(), part.tolist()) == ([5, 6, 7, 8], [6, 7])

    assert run(read).unmeasured is None
