"""The settings of BLAS libraries on a simulated device."""

import pytest
import torch

BLAS = torch.backends.cuda


@pytest.fixture
def again(run):
    """Runs a program, and resets the settings, which are of the process."""

    def ran(program, profile="H100"):
        return run(program, profile).unmeasured

    yield ran

    def reset():
        torch._C._cuda_resetCublasWorkspaceSize()
        torch._C._cuda_resetCublasLtWorkspaceSize()
        BLAS.preferred_blas_library("default")

    for profile in ("H100", "A100-80GB"):
        run(reset, profile)
    assert ran(lambda: None) is None


def test_a_program_reads_pytorchs_own_settings(again):
    read = []

    def program():
        read.append(BLAS.cublas_workspace_size())
        read.append(BLAS.cublaslt_workspace_size())
        read.append(BLAS.preferred_blas_library("cublas"))
        BLAS.cublas_workspace_size(read[-3])

    assert again(program) is None
    assert again(program, "A100-80GB") is None
    cublas = torch._C._BlasBackend.Cublas
    # As PyTorch 2.13.0 and 2.15.0 answer on the null device.
    assert read == [33_554_432, 1_048_576, cublas, 8_519_680, 1_048_576, cublas]


@pytest.mark.parametrize(
    ("change", "named", "own"),
    [
        (lambda: BLAS.cublas_workspace_size(4), "cublas_workspace_size is 4", "33554432"),
        (lambda: BLAS.cublaslt_workspace_size(8), "cublaslt_workspace_size is 8", "1048576"),
        (
            lambda: BLAS.preferred_blas_library("cublaslt"),
            "preferred_blas_library is Cublaslt",
            "Cublas",
        ),
    ],
)
def test_a_setting_that_is_not_followed_is_not_enforced_here_and_later(again, change, named, own):
    expected = (
        f"torch.backends.cuda.{named}, and the simulation follows PyTorch's own setting only,"
        f" {own}; backend null or cuda measures it"
    )
    assert again(change) == expected
    assert again(lambda: torch.empty(8, 8, device="cuda").square()) == expected
