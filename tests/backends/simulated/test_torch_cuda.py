"""``torch.cuda``, the settings of BLAS and the build of PyTorch, on a simulated device."""

import pytest
import torch

from pytest_attnmem.backends.simulated.torch_cuda.cuda_functions import build_patches
from pytest_attnmem.errors import CannotSimulate
from pytest_attnmem.measurement.environment import describe
from pytest_attnmem.torch_releases import KNOWN, minor_version

pytestmark = pytest.mark.usefixtures("kept_workspaces")

BLAS = torch.backends.cuda

OTHER = (1, "cuda:1", torch.device("cuda:1"))
NAMES = (
    *("synchronize", "memory_allocated", "memory_stats", "mem_get_info"),
    "reset_peak_memory_stats",
)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_device(run, name):
    found = []

    def program():
        call = getattr(torch.cuda, name)
        for device in (0, "cuda", "cuda:0", torch.device("cuda")):
            call(device)
        for device in OTHER:
            with pytest.raises(CannotSimulate) as refused:
                call(device)
            found.append(str(refused.value))
        with pytest.raises(ValueError, match=r"^Expected a cuda device, but got: cpu$"):
            call("cpu")

    run(program)
    assert [text.partition(" at ")[0] for text in found] == [
        "the simulated backend has one device, 'cuda', not 'cuda:1'"
    ] * len(OTHER)


def test_a_generator_is_of_the_one_device(run):
    def program():
        state = torch.cuda.get_rng_state("cuda:0")
        wanted = torch.rand(4, device="cuda").tolist()
        torch.cuda.set_rng_state(new_state=state, device=0)
        assert torch.rand(4, device="cuda").tolist() == wanted
        torch.cuda.set_rng_state_all(new_states=[state])
        assert torch.rand(4, device="cuda").tolist() == wanted

    run(program)


def test_one_device_has_what_a_build_without_cuda_lacks(run):
    def program():
        with torch.cuda.nvtx.range("step"):
            layer = torch.nn.DataParallel(torch.nn.Linear(16, 4, device="cuda"))
            assert layer(torch.ones(2, 16, device="cuda")).shape == (2, 4)
        with pytest.raises(ValueError, match="enable_timing=True"):
            torch.cuda.Event().elapsed_time(torch.cuda.Event())
        with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
            torch.ones(1, device="cuda").data = 3

    assert run(program).peak_bytes == (64 + 4 + 32 + 8) * 4


def test_the_present_device_is_the_one(run):
    def program():
        with torch.cuda.device(0) as entered:
            assert entered is None
            assert torch.cuda.current_device() == 0
        with torch.cuda.device(None), torch.cuda.device("cuda"):
            torch.cuda.synchronize()

    run(program)


def test_a_machine_with_the_device_has_no_mps(returned, monkeypatch):
    yes = torch.backends.openmp.is_available  # as a Mac's, and no mock of the program
    monkeypatch.setattr(torch.backends.mps, "is_available", yes)
    assert returned(lambda: torch.backends.mps.is_available()) is False
    assert torch.backends.mps.is_available()


@pytest.mark.parametrize(("profile", "cublas"), [("H100", 33_554_432), ("A100-80GB", 8_519_680)])
def test_a_program_reads_pytorchs_own_settings(returned, profile, cublas):
    def program():
        found = [BLAS.cublas_workspace_size(), BLAS.cublaslt_workspace_size()]
        BLAS.cublas_workspace_size(found[0])
        return [*found, BLAS.preferred_blas_library("cublas")]

    # As PyTorch 2.13.0 and 2.15.0 answer on the null device.
    assert returned(program, profile) == [cublas, 1_048_576, torch._C._BlasBackend.Cublas]


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
        f"torch.backends.cuda.{name} at test_torch_cuda.py:{change.__code__.co_firstlineno}"
        " cannot be simulated"
    )


#: What the builds on PyPI answer: CUDA's version, the same as a number, and cuDNN's.
ANSWERS = {
    (2, 13): ("13.0", 13000, 92000),
    (2, 14): ("13.0", 13000, 92400),
    (2, 15): ("13.2", 13020, 92600),
}


def test_each_version_answers_as_its_build_does():
    assert ANSWERS.keys() == {*KNOWN}
    for version, answers in ANSWERS.items():
        found = build_patches(version)
        cudnn = torch.backends.cudnn
        cuda = found[torch.version, "cuda"]
        assert answers == (
            cuda if torch.version.cuda is None else answers[0],  # this build's own answer
            found[torch._C, "_cuda_getCompiledVersion"](),
            found[cudnn, "version"](),
        )
        assert found[cudnn, "is_available"]()


def test_a_version_without_rules_answers_as_the_newest():
    assert build_patches((9, 9))[torch.backends.cudnn, "version"]() == ANSWERS[KNOWN[-1]][2]


def test_a_program_finds_a_build_for_cuda(run):
    def program():
        assert torch.version.cuda == ANSWERS[minor_version(torch.__version__)][0]
        assert torch.backends.cudnn.is_available()
        assert describe()["cuda"] == before  # the report says what is installed
        assert torch.cuda.get_device_properties(0).memory_bus_width == 5120

    before = torch.version.cuda
    assert run(program, "H100").unmeasured is None
    assert torch.version.cuda == before
