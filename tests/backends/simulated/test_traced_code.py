"""TorchScript's traces, inside windows and outside."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.trace")


def twice(x):
    return x * 2


def test_a_trace_inside_a_window_takes_what_it_takes_on_the_null_device(run):
    def program():
        traced = torch.jit.trace(twice, torch.ones(2, device="cuda"))
        assert traced(torch.ones(3, device="cuda")).tolist() == [2, 2, 2]

    assert run(program).unmeasured is None


def test_code_traced_outside_windows_runs(session):
    traced = torch.jit.trace(twice, torch.ones(2, device="cuda"))
    assert traced(torch.ones(3, device="cuda")).tolist() == [2, 2, 2]
