"""The workspaces of cuBLAS and cuBLASLt: PyTorch's sizes, and the sizes of the environment."""

import pytest

from pytest_attnmem.backends.simulated.scratch.workspaces import CUBLAS, CUBLASLT, workspaces
from pytest_attnmem.profiles import PROFILES

OLD, NEW = (2, 14), (2, 15)
KEPT = {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}
APART = {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}
CONFIG, LT_SIZE = "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE"


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
def test_a_workspace_is_as_large_as_pytorch_makes_it(device, config, nbytes):
    environ = {} if config is None else {CONFIG: config}
    assert workspaces(PROFILES[device], OLD, environ).of(CUBLAS) == (CUBLAS, nbytes)


@pytest.mark.parametrize(
    ("version", "environ", "kept", "cublaslt"),
    [
        # As PyTorch 2.13.0, 2.14.1 and 2.15.0 answer on the null device, for an H100.
        (OLD, {}, True, (CUBLAS, 32 << 20)),
        (OLD, APART, True, (CUBLASLT, 1 << 20)),
        (OLD, {LT_SIZE: "20000"}, True, (CUBLAS, 32 << 20)),
        (OLD, APART | {LT_SIZE: "2000"}, True, (CUBLASLT, 2_048_000)),
        (NEW, {}, False, (CUBLASLT, 1 << 20)),
        (NEW, APART, False, (CUBLASLT, 1 << 20)),
        (NEW, KEPT, True, (CUBLAS, 32 << 20)),
        (NEW, KEPT | APART, True, (CUBLASLT, 1 << 20)),
        (NEW, {LT_SIZE: "20000"}, False, (CUBLASLT, 20_480_000)),
        (NEW, {LT_SIZE: "200"} | KEPT, True, (CUBLAS, 32 << 20)),
        (NEW, {CONFIG: ":16:8", LT_SIZE: "0"}, False, (CUBLASLT, 0)),
    ],
)
def test_what_is_kept_and_what_cublaslt_has_of_its_own(version, environ, kept, cublaslt):
    found = workspaces(PROFILES["H100"], version, environ)
    assert (found.kept, found.of(CUBLASLT)) == (kept, cublaslt)
