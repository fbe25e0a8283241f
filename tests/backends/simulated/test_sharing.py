"""Tensors of a simulated session that other libraries and processes share."""

import numpy
import pytest
import torch


def test_a_host_tensor_is_read_by_dlpack(run):
    found = []
    run(lambda: found.append(numpy.from_dlpack(torch.arange(3.0, device="cuda").cpu()).tolist()))
    assert found == [[0.0, 1.0, 2.0]]


def numpys(x):
    return numpy.from_dlpack(x)


def torchs(x):
    return torch.from_dlpack(x)


def legacy(x):
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))


@pytest.mark.parametrize(
    ("device", "share"), [("cpu", numpys), ("cpu", torchs), ("cpu", legacy), ("cuda", torchs)]
)
def test_what_dlpack_returns_shares_memory_with_the_tensor(run, device, share):
    def program():
        x = torch.ones(3, device="cuda").to(device)
        shared = share(x)
        x.add_(1)
        found.append(shared.tolist())
        shared[0] = 5
        found.append(x.tolist())

    found = []
    assert run(program).unmeasured is None
    assert found == [[2, 2, 2], [5, 2, 2]]


def test_dlpack_moves_and_copies_a_tensor_as_it_is_asked(run):
    def program():
        x = torch.ones(3, device="cuda")
        found.extend([torch.from_dlpack(x, device="cpu").device, torch.from_dlpack(x, copy=True)])
        with pytest.raises(ValueError, match="without copying"):
            torch.from_dlpack(x, device="cpu", copy=False)
        with pytest.raises(BufferError, match=r"^Can't export tensors that require gradient"):
            torch.from_dlpack(x.requires_grad_())

    found = []
    assert run(program).peak_bytes == 24
    assert found[0].type == "cpu"
