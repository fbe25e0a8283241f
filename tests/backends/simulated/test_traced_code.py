"""TorchScript's traces, inside windows and outside."""

import io

import pytest
import torch
from torch import nn

from pytest_attnmem.errors import CannotSimulate

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def twice(x):
    return x * 2


TRACES = {
    "trace": (
        lambda x: torch.jit.trace(twice, x),
        "torch.jit.trace at test_traced_code.py:{}, inside the measured code, cannot be simulated;"
        " trace in a fixture, set PYTORCH_JIT=0, or use backend='cpu' for this test",
    ),
    "trace_module": (
        lambda x: torch.jit.trace_module(nn.ReLU(), {"forward": x}),
        "torch.jit.trace at test_traced_code.py:{}, inside the measured code, cannot be simulated;"
        " trace in a fixture, set PYTORCH_JIT=0, or use backend='cpu' for this test",
    ),
    "export": (
        lambda x: torch.onnx.export(nn.ReLU(), (x,), io.BytesIO(), dynamo=False),
        "a trace at test_traced_code.py:{}, as of torch.onnx.export(dynamo=False), cannot be"
        " simulated; use backend='cpu' for this test",
    ),
}


@pytest.mark.parametrize(("trace", "refusal"), TRACES.values(), ids=TRACES)
def test_a_trace_inside_a_window_is_refused_in_one_line(run, trace, refusal):
    def program():
        with pytest.raises(CannotSimulate):
            trace(torch.ones(2, device="cuda"))

    assert run(program).unmeasured == refusal.format(trace.__code__.co_firstlineno)
    assert torch.is_autocast_cache_enabled()  # the exporter turns it off for the trace


def test_a_trace_is_pytorchs_where_its_jit_is_off(run, monkeypatch):
    monkeypatch.setattr(torch.jit._state._enabled, "enabled", False)
    traced = []
    assert run(lambda: traced.append(torch.jit.trace(twice, torch.ones(2)))).unmeasured is None
    assert traced == [twice]


def test_code_traced_outside_windows_runs(session):
    traced = torch.jit.trace(twice, torch.ones(2, device="cuda"))
    assert traced(torch.ones(3, device="cuda")).tolist() == [2, 2, 2]


def test_code_that_cannot_be_traced_on_the_device_is_refused_in_one_line(session):
    def fails(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        torch.jit.trace(fails, torch.ones(2))
    with pytest.raises(CannotSimulate) as refused:
        torch.jit.trace(fails, torch.ones(2, device="cuda"))
    line = test_code_that_cannot_be_traced_on_the_device_is_refused_in_one_line.__code__
    assert str(refused.value) == (
        f"torch.jit.trace at test_traced_code.py:{line.co_firstlineno + 7} of this code on the"
        " device cannot be simulated; trace it on the host, or use backend='cpu' for this test"
    )
