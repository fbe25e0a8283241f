"""PyTorch's checks of devices, by the tensors of a call."""

import pytest
import torch

from pytest_attnmem.backends.simulated.host_tensors.checks import (
    TOO_MANY,
    TWO_DEVICES,
    by_place,
    by_place_in_lists,
    check_of,
)
from pytest_attnmem.backends.simulated.host_tensors.operands import Signature, is_mixed

HOST, DEVICE = "cpu", "meta"


def tensors(func, *args, **kwargs):
    """Returns the tensors of a call; those of ``meta`` stand for the device's."""
    return Signature(func).placed(args, kwargs)


def single(device=HOST):
    return torch.empty((), device=device)


def full(device=HOST, *shape):
    return torch.empty(shape or (4,), device=device)


ADD, OUT = torch.ops.aten.add.Tensor, torch.ops.aten.add.out


@pytest.mark.parametrize(
    ("given", "most", "text"),
    [
        (tensors(ADD, full(DEVICE), single()), 1, ""),
        (tensors(ADD, full(DEVICE), single()), 0, TWO_DEVICES),
        (tensors(ADD, full(DEVICE), full()), 1, TWO_DEVICES),
        (tensors(OUT, single(), single(), out=full(DEVICE)), 1, TOO_MANY),
        (tensors(OUT, single(), single(), out=full(DEVICE)), 2, ""),
        (tensors(OUT, full(DEVICE), single(), out=single()), 1, TWO_DEVICES),
        (tensors(ADD, full(DEVICE, 3), full(HOST, 4)), 1, ""),  # their shapes are the error
        (tensors(torch.ops.aten.add_.Tensor, single(), full(DEVICE)), 1, ""),
        (tensors(torch.ops.aten.add_.Tensor, single(), single(DEVICE)), 1, TWO_DEVICES),
    ],
)
def test_elements_take_single_numbers_of_the_host(given, most, text):
    assert check_of(f"elements {most}", "add", "")(given) == text


@pytest.mark.parametrize(
    ("check", "overload", "method"),
    [
        ("structured", "Tensor", "add_Tensor"),
        ("structured", "", "add"),
        ("structured out", "out", "add_out_out"),
        ("unstructured", "Tensor", "Tensor_add"),
        ("unstructured", "", "_add"),
        ("unstructured out", "out", "out_add_out"),
        ("wrapper _other", "", "_other"),
    ],
)
def test_a_wrapper_compares_with_the_first_tensor_and_names_the_method(check, overload, method):
    said = check_of(check, "add", overload)(tensors(ADD, single(), full(DEVICE)))
    assert said == (
        "Expected all tensors to be on the same device, but got other is on cuda:0, different from"
        f" other tensors on cpu (when checking argument in method wrapper_CUDA_{method})"
    )
    outputs = tensors(OUT, full(DEVICE), full(DEVICE), out=full())
    assert "but got self is on cuda:0" in check_of(check, "add", overload)(outputs)
    assert check_of(check, "add", overload)(tensors(ADD, full(DEVICE), full(DEVICE))) == ""


def test_an_output_of_the_host_is_refused_after_the_inputs():
    check = check_of("out elements 1", "add", "out")
    assert check(tensors(OUT, full(DEVICE), full(), out=full())) == TWO_DEVICES
    assert check(tensors(OUT, full(DEVICE), single(), out=full())) == (
        "Expected out tensor to have device cuda:0, but got cpu instead"
    )
    assert check_of("out", "add", "out")(tensors(OUT, single(), single(), out=full(DEVICE))) == (
        "Expected out tensor to have device cpu, but got cuda:0 instead"
    )
    assert check(tensors(OUT, full(DEVICE), single(), out=full(DEVICE))) == ""


def test_places_refuse_by_the_argument_and_its_dimensions():
    texts = {"other single": "a number", "self full": "a tensor"}
    assert by_place(texts, tensors(ADD, full(DEVICE), single())) == "a number"
    assert by_place(texts, tensors(ADD, full(), single(DEVICE))) == "a tensor"
    assert by_place(texts, tensors(ADD, single(), full(DEVICE))) == ""


def test_lists_are_handled_row_by_row():
    foreach = torch.ops.aten._foreach_add.List
    texts = {"self full": "first", "other full": "second"}
    rows = tensors(foreach, [full(), full(DEVICE)], [full(), full()])
    assert by_place_in_lists(texts, rows) == "second"
    assert is_mixed(rows)
    assert not is_mixed(rows[:1])
