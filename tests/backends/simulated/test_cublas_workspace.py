"""The workspaces of cuBLAS: PyTorch's sizes, and those that the environment asks for."""

import pytest

from pytest_attnmem.backends.simulated.cublas_workspace import workspace_bytes
from pytest_attnmem.profiles import PROFILES


@pytest.mark.parametrize(
    ("device", "config", "nbytes"),
    [
        ("A10G", None, 8_519_680),  # as pytorch#95668 saw it
        ("GTX 1080", None, 8_519_680),
        ("H100", None, 33_554_432),
        ("B200", None, 33_554_432),
        ("A100-80GB", ":4096:2:16:8", 8_519_680),
        ("A100-80GB", ":4096:8", 33_554_432),
        ("H100", ":16:8", 131_072),
        ("H100", ":0:0", 0),
        ("H100", "nonsense", 33_554_432),
    ],
)
def test_a_workspace_is_as_large_as_pytorch_makes_it(monkeypatch, device, config, nbytes):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if config is not None:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", config)
    assert workspace_bytes(PROFILES[device]) == nbytes
