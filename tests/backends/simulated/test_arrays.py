"""Arrays and tensors that share memory: what one writes, the other reads."""

import numpy as np
import pytest
import torch

from pytest_attnmem.backends.simulated.session.process import process_device
from pytest_attnmem.errors import CannotSimulate


def on_host(count=4):
    torch.ones(1, device="cuda")  # this names the device, so other tensors are on the host
    return torch.zeros(count)


@pytest.mark.usefixtures("anywhere")
def test_an_array_shares_the_memory_of_a_tensor():
    tensor = on_host()
    array = tensor.numpy()
    array[0] = 5
    assert tensor.sum().item() == 5
    with torch.no_grad():
        tensor.copy_(torch.full((4,), 3.0, device="cuda"))
    assert array.tolist() == [3] * 4
    np.asarray(tensor.view(2, 2)[1])[:] = 7
    assert tensor.tolist() == [3, 3, 7, 7]


@pytest.mark.usefixtures("anywhere")
def test_a_single_number_shares_memory_too():
    on_host()
    number = torch.tensor(3.0)
    array = number.numpy()
    array[()] = 5
    assert number.item() == 5
    other = torch.from_numpy(array)
    array[()] = 6
    assert (other.item(), (torch.ones(2, device="cuda") * number).tolist()) == (6, [6, 6])


@pytest.mark.usefixtures("anywhere")
def test_the_device_has_a_copy_of_what_an_array_was():
    array = np.zeros(4, np.float32)
    made = []
    for step in range(3):
        array[:] = step
        made.append(torch.from_numpy(array).cuda() * torch.ones(4, device="cuda"))
    assert [tensor.tolist() for tensor in made] == [[0] * 4, [1] * 4, [2] * 4]
    assert torch.tensor(array, device="cuda").tolist() == [2] * 4


@pytest.mark.usefixtures("anywhere")
def test_an_operator_before_the_array_was_made_reads_the_old_values():
    tensor = on_host()
    before = tensor.cuda() + 1
    tensor.numpy()[:] = 9
    assert (before.tolist(), tensor.tolist()) == ([1] * 4, [9] * 4)


def test_an_array_is_not_written_with_values_that_nobody_knows(backends):
    with backends("RTX 4090").world():
        lost, tensor = torch.ones(4, device="cuda"), torch.from_numpy(np.zeros(4, np.float32))
        process_device().tape.lose(lost, "a kernel wrote it")
        with pytest.raises(CannotSimulate, match=r"needs the values .* a kernel wrote it"):
            tensor.copy_(lost)


def test_the_bytes_of_an_array_on_the_device_are_those_of_a_copy(run):
    array = np.zeros(1000, np.float32)
    seen = run(lambda: torch.from_numpy(array) * 2)
    assert (seen.peak_bytes, seen.retained_bytes) == (8000, 4000)


@pytest.mark.usefixtures("anywhere")
def test_a_tensor_of_the_host_is_written_by_out():
    other, out = torch.ones(2, device="cuda").cpu(), torch.zeros(2, 2, device="cpu")
    torch.stack([other, other + 1], out=out)
    assert out.tolist() == [[1, 1], [2, 2]]
