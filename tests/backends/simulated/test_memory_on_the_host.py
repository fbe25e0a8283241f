"""Files, addresses and the device ``meta``: what libraries do with a model beside computing."""

import copy
import ctypes
import io

import pytest
import torch
from torch import nn


def linear(bias=False):
    return nn.Linear(3, 3, bias=bias, device="cuda")


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.usefixtures("anywhere")
def test_a_file_has_the_values_the_device_and_whether_a_gradient_is_wanted():
    x, y = torch.arange(6.0, device="cuda")[2:], torch.ones(2, device="cpu")
    found = torch.load(saved({"x": x.requires_grad_(), "y": y}))
    assert [one.is_cuda for one in found.values()] == [True, False]
    assert (found["x"].tolist(), found["x"].requires_grad) == ([2, 3, 4, 5], True)
    complex_numbers = torch.tensor([1 + 2j], device="cuda").conj()
    assert torch.load(saved(complex_numbers)).tolist() == [1 - 2j]


@pytest.mark.usefixtures("anywhere")
def test_tensors_that_share_memory_share_it_in_a_file():
    first, second = linear(), linear()
    second.weight = first.weight
    model = nn.Sequential(first, second)
    state = torch.load(saved(model.state_dict()))
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr()
    assert torch.equal(state["1.weight"], first.weight)
    whole = torch.load(saved(model), weights_only=False)
    assert isinstance(whole[0].weight, nn.Parameter)
    assert torch.equal(whole[0].weight, first.weight)
    with torch.no_grad():
        first.weight.zero_()
    assert torch.load(saved(model.state_dict()))["0.weight"].abs().sum().item() == 0


@pytest.mark.usefixtures("anywhere")
def test_addresses_tell_which_tensors_share_memory():
    x = torch.arange(6.0, device="cuda")
    assert x[2:].data_ptr() == x.data_ptr() + 8
    assert x.untyped_storage().data_ptr() == x.data_ptr()
    assert x[:0].data_ptr() == 0
    assert torch.ones(6, device="cuda").data_ptr() != x.data_ptr()


def test_c_code_reads_and_writes_the_memory_of_a_tensor_of_the_host(backends):
    with backends("RTX 4090").world():
        host = torch.arange(6.0, device="cuda").cpu()[2:]
        assert host.untyped_storage().data_ptr() == host.data_ptr() - 8
        memory = (ctypes.c_float * 4).from_address(host.data_ptr())
        assert [*memory] == [2, 3, 4, 5]
        pinned = torch.empty(4, pin_memory=True)
        memory = (ctypes.c_float * 4).from_address(pinned.data_ptr())
        memory[:] = [1, 2, 3, 4]
        first = pinned.to("cuda", non_blocking=True)
        memory[:] = [5, 6, 7, 8]
        assert (first.tolist(), pinned.to("cuda").tolist()) == ([1, 2, 3, 4], [5, 6, 7, 8])


@pytest.mark.usefixtures("anywhere")
def test_tensors_on_meta_stay_there():
    x = torch.empty(4, 4, device="meta")
    assert (x.is_meta, str(x.device), (x @ x).is_meta) == (True, "meta", True)
    with torch.device("meta"):
        layer = nn.Linear(4, 8)
    nn.init.xavier_uniform_(layer.weight)
    out = layer(x)
    assert (out.is_meta, out.shape) == (True, (4, 8))
    out.sum().backward()
    assert layer.weight.grad.is_meta
    moved = torch.ones(3, 2, device="cuda").t().to("meta")
    assert (moved.is_meta, moved.shape, moved.stride()) == (True, (2, 3), (1, 2))


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("anywhere", ["inside"], indirect=True)
@pytest.mark.parametrize(
    "make",
    [torch.zeros_like, torch.rand_like, lambda x, **at: x.new_empty(2, 3, **at).T],
    ids=["zeros_like", "rand_like", "new_empty"],
)
def test_a_tensor_like_one_of_the_device_is_made_on_meta(make):
    x = torch.ones(3, 2, device="cuda").t().contiguous().t()
    for _ in range(3):
        found = make(x, device="meta", dtype=torch.float16)
        assert (found.is_meta, found.shape) == (True, (3, 2))
        assert found.dtype == torch.float16
    assert make(x).is_cuda


@pytest.mark.usefixtures("anywhere")
def test_a_model_made_on_meta_gets_its_memory_later():
    with torch.device("meta"):
        layer, other = nn.Linear(3, 3), nn.Linear(3, 3)
    for move in (layer.cuda, lambda: layer.to("cuda"), lambda: layer.weight.to("cuda")):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            move()
    layer.to_empty(device="cuda")
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    assert layer(torch.ones(2, 3, device="cuda")).tolist() == [[3, 3, 3]] * 2
    other.load_state_dict(layer.state_dict(), assign=True)
    other(torch.ones(2, 3, device="cuda")).sum().backward()
    assert other.weight.grad.tolist() == [[2, 2, 2]] * 3
    assert torch.empty_like(torch.empty(5, device="meta"), device="cuda").is_cuda


def test_only_the_memory_of_the_device_is_counted(run):
    def program():
        layer = nn.Linear(256, 256, bias=False, device="meta")
        layer.to_empty(device="cuda")
        return layer

    assert run(program).peak_bytes == 256 * 256 * 4


def test_a_number_names_the_device(run):
    assert run(lambda: torch.ones(5, device=torch.device(0))).peak_bytes == 20
    assert run(lambda: torch.ones(5).to(torch.device("cuda:0"))).peak_bytes == 20


def test_a_deep_copy_has_the_whole_storage_once_for_all_its_views(run):
    def program():
        x = torch.arange(1000.0, device="cuda")
        first, second = copy.deepcopy([x[:10], x[500:502]])
        assert (second.tolist(), first.shape) == ([500, 501], (10,))
        assert second.data_ptr() == first.data_ptr() + 2000
        return first, second

    seen = run(program)
    assert (seen.peak_bytes, seen.retained_bytes) == (8004, 4000)


@pytest.mark.usefixtures("anywhere")
def test_the_type_of_a_parameter_makes_parameters():
    weight = linear().weight
    made = type(weight)(weight.detach(), requires_grad=False)
    assert (isinstance(made, nn.Parameter), made.requires_grad) == (True, False)
    assert torch.equal(made, weight)
