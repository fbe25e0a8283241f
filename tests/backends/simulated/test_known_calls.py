"""What one simulation learned of the calls of operators, the next one of that device knows."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.backends.simulated import known_calls
from pytest_attnmem.backends.simulated.autograd_calls import AutogradCalls
from pytest_attnmem.backends.simulated.direct_ops import DirectOps
from pytest_attnmem.backends.simulated.op_rules import plan
from pytest_attnmem.backends.simulated.recorded_events import recorded
from pytest_attnmem.profiles import find_profile

VERSION = (2, 13)


@pytest.fixture(autouse=True)
def unknown(monkeypatch):
    """No call is known from the tests before."""
    monkeypatch.setattr(known_calls, "_DEVICES", known_calls._Devices())


@pytest.fixture
def computed(monkeypatch):
    """The operators that no simulation knew."""
    found = []
    run = DirectOps.run

    def noting(self, func, args, kwargs):
        found.append(str(func))
        return run(self, func, args, kwargs)

    monkeypatch.setattr(DirectOps, "run", noting)
    return found


def events(program, device="A100-80GB"):
    return recorded(open_backend(f"simulated:{device}").gauge(), program)


def attention():
    x = torch.ones(2, 4, 4, device="cuda", requires_grad=True)
    ((x @ x.mT).softmax(-1) @ x).sum().backward()


def tangents():
    x = torch.ones(4, 4, device="cuda")
    with forward_ad.dual_level():
        forward_ad.make_dual(x, x + 1) * x


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward_ad's own
@pytest.mark.parametrize("program", [attention, tangents])
def test_a_later_simulation_allocates_the_same(program):
    first = events(program)
    assert [events(program), events(program)] == [first, first]


def test_a_later_simulation_computes_no_call_again(computed):
    events(attention)
    del computed[:]
    events(attention)
    assert "aten.bmm.default" not in computed
    events(attention, "H100")  # kernels of another device have other scratch
    assert "aten.bmm.default" in computed


def test_a_process_is_warmed_up_once_for_a_device(monkeypatch):
    warmed, warm_up = [], AutogradCalls.warm_up
    monkeypatch.setattr(AutogradCalls, "warm_up", lambda self: warmed.append(warm_up(self)))
    for device in ("A100-80GB", "A100-80GB", "H100"):
        open_backend(f"simulated:{device}")
    assert len(warmed) == 2


def test_cudnn_is_asked_again_for_its_environment_may_have_changed(computed):
    def convolution():
        F.conv2d(torch.ones(1, 1, 4, 4, device="cuda"), torch.ones(1, 1, 2, 2, device="cuda"))

    events(convolution)
    del computed[:]
    events(convolution)
    assert computed == ["aten.convolution.default"]


def test_only_so_many_devices_and_calls_are_known(monkeypatch):
    monkeypatch.setattr(known_calls, "_MOST_DEVICES", 2)
    monkeypatch.setattr(known_calls, "MOST", 2)
    devices = [find_profile(name) for name in ("A100-80GB", "H100", "T4")]
    first, second, third = (known_calls.known_calls(one, VERSION, plan) for one in devices)
    assert known_calls.known_calls(devices[2], VERSION, plan) is third
    assert known_calls.known_calls(devices[0], VERSION, plan) is not first
    for key in range(3):
        known_calls.keep(second.ops, key, None)
    assert second.ops == {2: None}
