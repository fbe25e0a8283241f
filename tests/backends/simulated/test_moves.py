"""Moves of tensors in the forms that programs write."""

import pytest
import torch

FORMS = {
    "a dtype": (lambda x: x.type(torch.float16), "cuda", torch.float16),
    "the name of a type": (lambda x: x.type("torch.cuda.HalfTensor"), "cuda", torch.float16),
    "a type of the host": (lambda x: x.type(torch.LongTensor), "cpu", torch.int64),
    "a tensor": (lambda x: x.to(torch.ones(1, dtype=torch.int32)), "cpu", torch.int32),
    "positions": (lambda x: x.cpu().to("cuda", torch.half, True), "cuda", torch.float16),
    "no dtype": (lambda x: x.cpu().to("cuda", None, True), "cuda", torch.float32),
    "a number": (lambda x: x.cpu().to(0), "cuda", torch.float32),
    "nothing": (lambda x: x.to(None, torch.half), "cuda", torch.float16),
}


@pytest.mark.parametrize(("move", "device", "dtype"), FORMS.values(), ids=FORMS)
def test_each_form_names_the_device_and_the_dtype(returned, move, device, dtype):
    def program():
        x = move(torch.arange(4.0, device="cuda"))
        return x.device.type, x.dtype, x.tolist()

    assert returned(program) == (device, dtype, [0, 1, 2, 3])


def test_the_type_has_a_name(returned):
    def program():
        x = torch.ones(1, device="cuda", dtype=torch.bfloat16)
        return [x.type(), x.cpu().type(), x.bool().type()]

    names = ["torch.cuda.BFloat16Tensor", "torch.BFloat16Tensor", "torch.cuda.BoolTensor"]
    assert returned(program) == names


def test_a_factory_fills_the_tensor_that_it_is_given(run):
    def program():
        whole = torch.empty(3, device="cuda", dtype=torch.int64)
        torch.arange(3, out=whole)
        return whole.tolist(), torch.nn.init.eye_(torch.empty(2, 2, device="cuda")).tolist()

    found = []
    measured = run(lambda: found.append(program()))
    assert found == [([0, 1, 2], [[1.0, 0.0], [0.0, 1.0]])]
    assert measured.peak_bytes == 40


def test_a_module_moves_in_inference_mode(returned):
    def program():
        with torch.inference_mode():
            layer = torch.nn.Linear(4, 4, device="cuda").half().float().to("cuda")
            torch.nn.init.ones_(layer.weight)
            return layer.cpu().weight.sum().item()

    assert returned(program) == 16


@pytest.mark.parametrize("given", [(0,), (0, torch.float16)])
def test_a_module_moves_to_a_number(anywhere, given):
    layer = torch.nn.Linear(4, 4, device="cpu").to(*given)
    assert layer.weight.device == torch.device("cuda", 0)
    assert layer.weight.dtype == (given[1:] or (torch.float32,))[0]


@pytest.mark.usefixtures("anywhere")
def test_data_is_given_by_the_name_of_the_argument():
    made = (
        torch.asarray(obj=[1.0, 2.0], device="cuda", copy=True),
        torch.as_tensor(data=[1.0, 2.0], device="cuda"),
        torch.tensor(data=[1.0, 2.0], device="cuda"),
    )
    for tensor in made:
        assert (tensor.device.type, tensor.tolist()) == ("cuda", [1, 2])
