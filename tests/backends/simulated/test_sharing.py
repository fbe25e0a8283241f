"""Tensors of a simulated session that other libraries and processes share."""

import numpy
import pytest
import torch

from pytest_attnmem.errors import CannotSimulate


def test_a_host_tensor_is_read_by_dlpack(run):
    found = []
    run(lambda: found.append(numpy.from_dlpack(torch.arange(3.0, device="cuda").cpu()).tolist()))
    assert found == [[0.0, 1.0, 2.0]]


def test_memory_of_the_device_is_not_read_by_dlpack(run):
    def program():
        x = torch.ones(3, device="cuda")
        with pytest.raises(CannotSimulate, match=r"Tensor\.__dlpack__ of a tensor on the device"):
            torch.utils.dlpack.from_dlpack(x)

    assert run(program).unmeasured == "Tensor.__dlpack__ of a tensor on the device"


def test_tensors_of_the_device_and_modules_of_the_host_are_shared(run):
    def program():
        layer = torch.nn.Linear(2, 2, device="cpu")
        found.append(layer.weight.is_shared())
        layer.share_memory()
        found.extend([layer.weight.is_shared(), torch.ones(2, device="cuda").is_shared()])

    found = []
    run(program)
    assert found == [False, True, True]
