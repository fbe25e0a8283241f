import pytest
import torch

from pytest_attnmem.backends.simulated.session import process
from pytest_attnmem.errors import BackendUnavailable


def test_it_does_not_stand_beside_a_real_device(monkeypatch):
    monkeypatch.setattr(process._PROCESS, "device", None)
    monkeypatch.setattr(process, "works_in_child", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(BackendUnavailable) as caught:
        process.process_device()
    assert str(caught.value) == (
        "a simulated device cannot stand beside a real one of CUDA's; run with"
        " --attnmem-backend simulated, or with CUDA_VISIBLE_DEVICES= in the environment"
    )


def test_it_does_not_stand_where_pytorch_cannot_have_it(monkeypatch):
    monkeypatch.setattr(process._PROCESS, "device", None)
    monkeypatch.setattr(process, "works_in_child", lambda: False)
    monkeypatch.setattr(process.sys, "platform", "freebsd14")
    with pytest.raises(BackendUnavailable) as caught:
        process.process_device()
    assert str(caught.value) == (
        f"torch {torch.__version__} on freebsd14 cannot have a simulated device: it needs Linux,"
        " macOS or Windows, and a build of PyTorch's own; use backend='cpu'"
    )
