import pytest

from pytest_attnmem.nulldevice import parts
from pytest_attnmem.nulldevice.torch_build import TorchBuild, describe

from .written_torch import write_torch

#: What torch's metadata says, of a build for CUDA 12 and of one for CUDA 13.
CUDA_12 = """\
Requires-Dist: nvidia-cuda-nvrtc-cu12 (==12.1.105) ; platform_system == "Linux"
Requires-Dist: nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == "Linux"
Requires-Dist: nvidia-cublas-cu12 (==12.1.3.1) ; platform_system == "Linux"
Requires-Dist: nvidia-cufft-cu12 (==11.0.2.54) ; platform_system == "Linux"
Requires-Dist: triton (==3.0.0) ; platform_system == "Linux" and python_version < "3.13"
"""
CUDA_13 = """\
Requires-Dist: cuda-toolkit[cublas,cudart,cufft,nvrtc]==13.0.3; platform_system == "Linux"
Requires-Dist: nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"
Requires-Dist: triton~=3.8.0; platform_system == "Linux"
"""


@pytest.fixture
def torch(tmp_path):
    def torch(cuda, text):
        folder = write_torch(tmp_path, "2.13.0", f"'{cuda}'", requires=text)
        return describe(folder, [tmp_path / "nvidia"])

    return torch


def test_cuda_12_has_a_package_a_library_and_its_old_cudnn_is_of_no_use(torch):
    found = torch("12.1", CUDA_12)
    assert parts.requirements(found, "cudnn") == [
        *("nvidia-cuda-nvrtc-cu12==12.1.105", "nvidia-cudnn-cu12==9.1.0.70"),
        "nvidia-cublas-cu12==12.1.3.1",
    ]
    assert parts.requirements(found, "nvrtc") == ["nvidia-cuda-nvrtc-cu12==12.1.105"]
    assert parts.requirements(found, "triton") == ["triton==3.0.0"]
    assert parts.unplannable(found) == (
        "torch 2.13.0 is made for cuDNN 9.1, which cannot plan without a GPU; cuDNN 9.8 and newer"
        " can"
    )


def test_cuda_13_has_extras_of_one_package_and_a_new_cudnn(torch):
    found = torch("13.0", CUDA_13)
    assert parts.requirements(found, "cudnn") == [
        *("cuda-toolkit[cublas,nvrtc]==13.0.3", "nvidia-cudnn-cu13==9.20.0.48")
    ]
    assert parts.requirements(found, "nvrtc") == ["cuda-toolkit[nvrtc]==13.0.3"]
    assert parts.requirements(found, "triton") == ["triton~=3.8.0"]
    assert parts.unplannable(found) == ""


def test_a_torch_without_metadata_names_no_package(tmp_path):
    assert parts.requirements(TorchBuild("2.13.0", "13.0", tmp_path / "torch", ()), "cudnn") == []


def test_what_lacks_is_what_is_not_beside_torch(torch, tmp_path, monkeypatch):
    found = torch("13.0", CUDA_13)
    monkeypatch.setattr(parts.importlib.util, "find_spec", lambda name: None)
    assert list(parts.lacking(found)) == ["cudnn", "nvrtc", "triton"]
    for name in ("nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cu13/lib/libnvrtc.so.13"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "triton").mkdir()
    assert list(parts.lacking(found)) == []


@pytest.mark.parametrize(
    ("function", "part"),
    [("cudnnCreate", "cudnn"), ("nvrtcVersion", "nvrtc"), ("cublasCreate_v2", "")],
)
def test_a_function_belongs_to_a_part(function, part):
    assert parts.part_of(function) == part
