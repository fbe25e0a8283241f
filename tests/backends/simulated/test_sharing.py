"""Tensors of a simulated session that other libraries and processes share."""

import numpy
import pytest
import torch


def legacy(x):
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))


@pytest.mark.parametrize(
    ("device", "share"),
    [
        *(("cpu", lambda x: numpy.from_dlpack(x)), ("cpu", lambda x: torch.from_dlpack(x))),
        *(("cpu", legacy), ("cuda", lambda x: torch.from_dlpack(x))),
    ],
    ids=["numpy", "torch", "legacy", "device"],
)
def test_what_dlpack_returns_shares_memory_with_the_tensor(returned, device, share):
    def program():
        x = torch.ones(3, device="cuda").to(device)
        shared = share(x)
        x.add_(1)
        before = shared.tolist()
        shared[0] = 5
        return before, x.tolist()

    assert returned(program) == ([2, 2, 2], [5, 2, 2])


def test_dlpack_moves_and_copies_a_tensor_as_it_is_asked(run):
    def program():
        x = torch.ones(3, device="cuda")
        copied = torch.from_dlpack(x, copy=True)
        assert torch.from_dlpack(x, device="cpu").device.type == "cpu"
        with pytest.raises(ValueError, match="without copying"):
            torch.from_dlpack(x, device="cpu", copy=False)
        with pytest.raises(BufferError, match=r"^Can't export tensors that require gradient"):
            torch.from_dlpack(x.requires_grad_())
        return copied

    assert run(program).peak_bytes == 24
