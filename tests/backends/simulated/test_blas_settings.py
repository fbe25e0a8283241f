"""The settings of BLAS libraries on a simulated device."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

BLAS = torch.backends.cuda


@pytest.mark.parametrize(("profile", "cublas"), [("H100", 33_554_432), ("A100-80GB", 8_519_680)])
def test_a_program_reads_pytorchs_own_settings(run, profile, cublas):
    read = []

    def program():
        read.append(BLAS.cublas_workspace_size())
        read.append(BLAS.cublaslt_workspace_size())
        read.append(BLAS.preferred_blas_library("cublas"))
        BLAS.cublas_workspace_size(read[0])

    assert run(program, profile).unmeasured is None
    # As PyTorch 2.13.0 and 2.15.0 answer on the null device.
    assert read == [cublas, 1_048_576, torch._C._BlasBackend.Cublas]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda: BLAS.cublas_workspace_size(4), "cublas_workspace_size"),
        (lambda: BLAS.cublaslt_workspace_size(8), "cublaslt_workspace_size"),
        (lambda: BLAS.preferred_blas_library("cublaslt"), "preferred_blas_library"),
    ],
)
def test_another_setting_is_refused(run, change, name):
    def program():
        with pytest.raises(CannotSimulate):
            change()

    assert run(program).unmeasured == (
        f"torch.backends.cuda.{name} at test_blas_settings.py:{change.__code__.co_firstlineno}"
        " cannot be simulated"
    )
