"""``torch.cuda`` of a program on a simulated device."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

pytestmark = pytest.mark.usefixtures("kept_workspaces")

OTHER = (1, "cuda:1", torch.device("cuda:1"))
NAMES = (
    *("synchronize", "memory_allocated", "memory_stats", "mem_get_info"),
    "reset_peak_memory_stats",
)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_device(run, name):
    found = []

    def program():
        call = getattr(torch.cuda, name)
        for device in (0, "cuda", "cuda:0", torch.device("cuda")):
            call(device)
        for device in OTHER:
            with pytest.raises(CannotSimulate) as refused:
                call(device)
            found.append(str(refused.value))
        with pytest.raises(ValueError, match=r"^Expected a cuda device, but got: cpu$"):
            call("cpu")

    run(program)
    assert [text.partition(" at ")[0] for text in found] == [
        "the simulated backend has one device, 'cuda', not 'cuda:1'"
    ] * len(OTHER)


def test_a_generator_is_of_the_one_device(run):
    def program():
        state = torch.cuda.get_rng_state("cuda:0")
        wanted = torch.rand(4, device="cuda").tolist()
        torch.cuda.set_rng_state(new_state=state, device=0)
        assert torch.rand(4, device="cuda").tolist() == wanted
        torch.cuda.set_rng_state_all(new_states=[state])
        assert torch.rand(4, device="cuda").tolist() == wanted

    run(program)


def test_one_device_has_what_a_build_without_cuda_lacks(run):
    def program():
        with torch.cuda.nvtx.range("step"):
            layer = torch.nn.DataParallel(torch.nn.Linear(16, 4, device="cuda"))
            assert layer(torch.ones(2, 16, device="cuda")).shape == (2, 4)
        with pytest.raises(ValueError, match="enable_timing=True"):
            torch.cuda.Event().elapsed_time(torch.cuda.Event())
        with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
            torch.ones(1, device="cuda").data = 3

    assert run(program).peak_bytes == (64 + 4 + 32 + 8) * 4


def test_the_present_device_is_the_one(run):
    def program():
        with torch.cuda.device(0) as entered:
            assert entered is None
            assert torch.cuda.current_device() == 0
        with torch.cuda.device(None), torch.cuda.device("cuda"):
            torch.cuda.synchronize()

    run(program)


def test_a_machine_with_the_device_has_no_mps(run, monkeypatch):
    yes = torch.backends.openmp.is_available  # as a Mac's, and no mock of the program
    monkeypatch.setattr(torch.backends.mps, "is_available", yes)
    found = []
    run(lambda: found.append(torch.backends.mps.is_available()))
    assert (found, torch.backends.mps.is_available()) == ([False], True)
