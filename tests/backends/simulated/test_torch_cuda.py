"""``torch.cuda`` of a program on a simulated device."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

OTHER = (1, "cuda:1", torch.device("cuda:1"))
NAMES = (
    *("set_device", "synchronize", "get_device_properties", "memory_allocated", "memory_stats"),
    *("max_memory_allocated", "mem_get_info", "reset_peak_memory_stats", "device"),
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
        f"the simulated backend has one device, 'cuda', not {str(device)!r}" for device in OTHER
    ]


def test_the_present_device_is_the_one(run):
    def program():
        with torch.cuda.device(0) as entered:
            assert entered is None
            assert torch.cuda.current_device() == 0
        with torch.cuda.device(None), torch.cuda.device("cuda"):
            torch.cuda.synchronize()

    run(program)
