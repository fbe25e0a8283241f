"""The simulated device as fixtures and imports see it, between measured bodies."""

import pytest
import torch
from torch import nn

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated.session import process
from pytest_attnmem.backends.simulated.session.process import process_device
from pytest_attnmem.errors import BackendUnavailable, CannotSimulate

CUDA = torch.device("cuda", 0)


@pytest.fixture
def backend():
    return open_backend("simulated:A100-80GB")


@pytest.fixture
def outside(backend):
    """The device of the backend, shown to the test itself."""
    outside = backend.outside()
    outside.enter()
    try:
        yield outside
    finally:
        outside.exit()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4, device="cuda"),
        lambda: torch.as_tensor([1.0], device="cuda:0"),
        lambda: torch.ones(4).to("cuda"),
        lambda: torch.ones(4).to(torch.empty(0, device="cuda")),
        lambda: torch.ones(4).pin_memory().cuda(0),
        lambda: torch.ones(4).new_ones(4, device="cuda"),
        lambda: torch.randn(4, device="cuda", generator=torch.Generator("cuda")),
        lambda: nn.Linear(2, 2, device="cuda")(torch.ones(1, 2, device="cuda")),
    ],
)
def test_every_name_of_the_device_puts_a_tensor_there(outside, make):
    assert make().device == CUDA
    assert torch.ones(4).add(1).tolist() == [2, 2, 2, 2]


def test_a_tensor_of_the_session_is_there_before_each_window_and_freed_in_one(backend, outside):
    held = [torch.ones(1000, device="cuda")]
    backend.forget()
    level = torch.cuda.memory_allocated()
    backend.forget()
    assert torch.cuda.memory_allocated() == level

    def program():
        y = held[0] * 2
        held.clear()
        return y

    measurement, y = PrimedBackend(backend, 0).run(program)
    assert (measurement.peak_bytes, measurement.retained_bytes) == (4000, 0)
    assert torch.cuda.memory_allocated() == level  # one came, and one went
    del y


def lost():
    x = torch.ones(2, device="cuda")
    process_device().tape.lose(x, "a kernel wrote it")
    return x


@pytest.mark.parametrize(
    ("run", "refusal"),
    [
        (
            lambda: torch.ones(2).copy_(lost()),
            "the program needs the values of a tensor at {}, which are not known: a kernel wrote"
            " it; use backend='cpu' for this test",
        ),
        (
            lambda: torch.ones(2, device="cuda:1"),
            "the simulated backend has one device, 'cuda', not 'cuda:1'; use another backend",
        ),
        (
            lambda: torch.save(lost(), "/dev/null"),
            "the program needs the values of a tensor at {}, which are not known: a kernel wrote"
            " it; use backend='cpu' for this test",
        ),
        (lambda: torch.cuda.CUDAGraph(), "a CUDA graph at {} cannot be simulated"),
        (
            lambda: torch.eye(2, device="cuda").to_sparse_csr(),
            "aten._to_sparse_csr.default cannot be simulated: PyTorch has no rule of its shapes",
        ),
    ],
    ids=["written", "second", "saved", "graph", "sparse"],
)
def test_what_no_simulation_can_do_is_refused_in_one_line(outside, run, refusal):
    with pytest.raises(CannotSimulate) as refused:
        run()
    line = f"test_session_device.py:{run.__code__.co_firstlineno}"
    assert str(refused.value) == refusal.format(line)


def test_code_without_the_device_runs_as_it_is_installed(outside):
    twice = torch.compile(lambda x: x * 2, backend="eager", fullgraph=True)
    assert twice(torch.ones(2)).tolist() == [2, 2]
    assert isinstance(torch.cuda.Stream(), torch.cuda.Stream)
    assert isinstance(torch.default_generator, torch.Generator)
    with outside.left():
        assert torch.Tensor.to is torch._C.TensorBase.to


def test_no_two_functions_of_the_device_are_one(run):
    """Dynamo raises an error where it finds two rules of one function."""
    names = ("synchronize", "empty_cache", "set_sync_debug_mode", "manual_seed", "nvtx.range_pop")

    def program():
        found = [getattr(torch.cuda, name) for name in names if hasattr(torch.cuda, name)]
        assert len({id(function) for function in found}) == len(found) > 3

    run(program)


@pytest.mark.parametrize(
    ("works", "refusal"),
    [
        (
            True,
            "a simulated device cannot stand beside a real one of CUDA's; run with"
            " --attnmem-backend simulated, or with CUDA_VISIBLE_DEVICES= in the environment",
        ),
        (
            False,
            f"torch {torch.__version__} on freebsd14 cannot have a simulated device: it needs"
            " Linux, macOS or Windows, and a build of PyTorch's own; use backend='cpu'",
        ),
    ],
    ids=["beside a real one", "where PyTorch cannot have it"],
)
def test_a_process_that_cannot_have_the_device_is_told_why(monkeypatch, works, refusal):
    monkeypatch.setattr(process._PROCESS, "device", None)
    monkeypatch.setattr(process, "works_in_child", lambda: works)
    monkeypatch.setattr(process.sys, "platform", "freebsd14")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: works)
    with pytest.raises(BackendUnavailable) as caught:
        process.process_device()
    assert str(caught.value) == refusal
