"""An operator of lists counts as a write of each tensor, so autograd's checks see it."""

import pytest
import torch


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_optimizers_step_is_a_write(anywhere, device):
    torch.empty(0, device="cuda")  # names the device
    weight = torch.ones(3, device=device, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    squares = (weight * weight).sum()
    torch.optim.SGD([weight], lr=0.1, foreach=True).step()
    assert weight._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def test_a_tensor_of_inference_mode_has_no_versions(anywhere):
    with torch.inference_mode():
        x = torch.ones(3, device="cuda")
        torch._foreach_mul_([x, x], 2.0)
        assert x.tolist() == [4, 4, 4]
