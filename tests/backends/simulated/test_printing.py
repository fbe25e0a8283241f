"""The text of a simulated tensor, and the memory that PyTorch takes to make it."""

import pytest
import torch

TENSORS = {
    "whole numbers": lambda: torch.arange(30.0),
    "a single one": lambda: torch.tensor(3.5),
    "half": lambda: torch.arange(4).half() / 3,
    "many": lambda: torch.arange(5000).reshape(50, 100).t(),
    "a leaf": lambda: torch.ones(2, requires_grad=True),
    "complex": lambda: torch.arange(2).to(torch.complex64),
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_the_text_is_pytorchs_with_the_device(returned, make):
    def program():
        x = make()
        return repr(x.to("cpu")), repr(x.detach().to("cuda"))

    expected = repr(make())
    on_host, on_device = returned(program)
    detached = expected.replace(", requires_grad=True", "")
    assert on_host == expected
    assert on_device.replace(", device='cuda:0'", "") == detached
    assert "device='cuda:0'" in on_device


def test_the_node_of_a_result_is_named(returned):
    text = returned(lambda: repr(torch.ones(2, device="cuda", requires_grad=True) * 2))
    assert text == "tensor([2., 2.], device='cuda:0', grad_fn=<MulBackward0>)"


def test_the_operators_that_make_it_take_memory(run):
    """The null device has these bytes with PyTorch 2.13, 2.14 and 2.15."""
    x = run(lambda: print(torch.arange(96.0, device="cuda").reshape(8, 12)))
    gaps = run(lambda: print(torch.arange(96.0, device="cuda").reshape(8, 12)[:, ::2]))
    assert (x.peak_bytes, x.allocated_bytes) == (2267, 4096)
    assert (gaps.peak_bytes, gaps.allocated_bytes) == (1835, 3584)


def test_lists_of_elements_with_gaps_are_copied_on_the_device(run):
    x = run(lambda: torch.arange(96.0, device="cuda").reshape(8, 12)[:, ::2].tolist())
    assert (x.peak_bytes, x.allocated_bytes) == (576, 1024)
