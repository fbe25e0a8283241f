import pytest
import torch

from pytest_attnmem.backends.device.process import process_device
from pytest_attnmem.backends.registry import BACKENDS, check_name
from pytest_attnmem.errors import BackendUnavailable


def test_the_name_is_hidden():
    assert "device" not in BACKENDS
    check_name("device:H100")
    with pytest.raises(BackendUnavailable, match="expected one of auto, cuda, accelerator, null,"):
        check_name("devise")


def test_it_does_not_stand_beside_a_real_device(monkeypatch):
    monkeypatch.setattr("pytest_attnmem.backends.device.process.works_in_child", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(BackendUnavailable) as caught:
        process_device()
    assert str(caught.value) == "a simulated device cannot stand beside a real one of CUDA's"
