"""Arrays and tensors that share memory: what one writes, the other reads."""

import ctypes

import numpy as np
import pytest
import torch

from pytest_attnmem.backends.simulated.process import process_device
from pytest_attnmem.errors import CannotSimulate


def on_host(count=4):
    torch.ones(1, device="cuda")  # this names the device, so other tensors are on the host
    return torch.zeros(count)


def from_numpy(array):
    return torch.from_numpy(array)


def as_tensor(array):
    return torch.as_tensor(array)


def by_buffer(array):
    return torch.frombuffer(array, dtype=torch.float32)


def by_dlpack(array):
    return torch.from_dlpack(array)


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("share", [from_numpy, as_tensor, by_buffer, by_dlpack])
def test_a_tensor_shares_the_memory_of_an_array(share):
    on_host()
    array = np.zeros(4, np.float32)
    tensor = share(array)
    array[0] = 5
    assert tensor.tolist() == [5, 0, 0, 0]
    tensor[1:3].add_(2)
    assert array.tolist() == [5, 2, 2, 0]
    torch.add(tensor, 1, out=tensor)
    assert array.tolist() == [6, 3, 3, 1]
    tensor.zero_()
    assert array.tolist() == [0] * 4


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
def test_a_call_that_is_made_again_reads_an_array_as_it_is():
    torch.ones(1, device="cuda")  # so that what has no device is on the host
    array = np.zeros(4, np.float32)
    tensor, made = torch.from_numpy(array), []
    for step in range(3):
        array[:] = step
        made.append(tensor * tensor)
    assert [tensor.tolist() for tensor in made] == [[0] * 4, [1] * 4, [4] * 4]


@pytest.mark.usefixtures("anywhere")
def test_an_operator_before_the_array_was_made_reads_the_old_values():
    tensor = on_host()
    before = tensor.cuda() + 1
    tensor.numpy()[:] = 9
    assert (before.tolist(), tensor.tolist()) == ([1] * 4, [9] * 4)


@pytest.mark.usefixtures("anywhere")
def test_random_numbers_are_written_into_an_array():
    on_host()
    array = np.zeros(4, np.float32)
    torch.manual_seed(0)
    torch.from_numpy(array).normal_()
    torch.manual_seed(0)
    assert array.tolist() == torch.empty(4).normal_().tolist()


@pytest.mark.usefixtures("anywhere")
def test_c_code_reads_what_an_operator_wrote_after_it_got_the_address():
    tensor = on_host()
    memory = (ctypes.c_float * 4).from_address(tensor.data_ptr())
    tensor.add_(2)
    memory[0] = 7
    assert ([*memory], tensor.tolist()) == ([7, 2, 2, 2], [7, 2, 2, 2])


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("shared", [False, True], ids=["copied", "shared"])
def test_a_tensor_is_in_the_memory_of_a_file(tmp_path, shared):
    path = tmp_path / "data"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    on_host()
    tensor = torch.from_file(str(path), shared=shared, size=4)
    moved = tensor.cuda() + 1
    tensor.zero_()
    assert (moved.tolist(), tensor.tolist()) == ([1, 2, 3, 4], [0] * 4)
    assert np.frombuffer(path.read_bytes(), np.float32).tolist() == (
        [0] * 4 if shared else [0, 1, 2, 3]
    )


@pytest.mark.usefixtures("anywhere")
def test_a_tensor_is_in_the_memory_of_a_buffer():
    on_host()
    memory = bytearray(16)
    tensor = torch.frombuffer(memory, dtype=torch.float32, count=3, offset=4)
    tensor.fill_(2)
    memory[4:8] = bytes(4)
    assert (tensor.device.type, tensor.tolist()) == ("cpu", [0, 2, 2])
    assert np.frombuffer(memory, np.float32).tolist() == [0, 0, 2, 2]
    assert torch.frombuffer(memory, dtype=torch.float32, requires_grad=True).requires_grad


@pytest.mark.usefixtures("anywhere")
def test_a_function_of_python_is_called_for_each_element_on_the_host():
    tensor, other = on_host(), torch.full((4,), 2.0, device="cpu")
    tensor.copy_(torch.arange(4.0))
    assert tensor.apply_(lambda x: x + 1) is tensor
    assert tensor.map_(other, lambda x, y: x * y).tolist() == [2, 4, 6, 8]
    assert (tensor.cuda() + 1).tolist() == [3, 5, 7, 9]
    with pytest.raises(TypeError, match=r"^apply_ is only implemented on CPU tensors$"):
        tensor.cuda().apply_(abs)
    with pytest.raises(TypeError, match=r"^map_(: expected| is only)"):
        tensor.cuda().map_(tensor, max)
    with pytest.raises(RuntimeError, match=r"^Can't call map_\(\) on Variable that requires grad"):
        tensor.map_(other.requires_grad_(), max)


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
