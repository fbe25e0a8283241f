import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.torch_build import describe


@pytest.fixture
def torch(tmp_path):
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    for name in ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_cpu.so"):
        (folder / "lib" / name).touch()
    (folder / "version.py").write_text(
        "__all__ = ['cuda']\n__version__ = '2.13.0+cu130'\ncuda: str | None = '13.0'\n"
    )
    return folder


def package(root, name, *headers, library=""):
    folder = root / "nvidia" / name
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    for header in headers:
        (folder / "include" / header).touch()
    if library:
        (folder / "lib" / library).touch()
    return folder


def test_a_build_for_cuda_13_has_one_folder_of_headers(torch, tmp_path):
    cu13 = package(tmp_path, "cu13", "cuda.h", "cuda_runtime_api.h", library="libcudart.so.13")
    found = describe(torch, [tmp_path / "nvidia"])
    assert (found.version, found.cuda, found.headers) == ("2.13.0+cu130", "13.0", cu13 / "include")
    assert [path.name for path in found.libraries] == ["libtorch_cuda.so", "libc10_cuda.so"]
    assert [path.name for path in found.runtime] == ["libcudart.so.13"]


def test_a_build_for_cuda_12_has_a_package_a_library(torch, tmp_path):
    package(tmp_path, "cublas", "cublas.h", library="libcublas.so.12")
    package(tmp_path, "cufft", "cufft.h", library="libcufft.so.11")
    package(tmp_path, "cusolver", "cusolverDn.h", library="libcusolver.so.11")
    runtime = package(
        tmp_path, "cuda_runtime", "cuda.h", "cuda_runtime_api.h", library="libcudart.so.12"
    )
    found = describe(torch, [tmp_path / "nvidia"])
    assert found.headers == runtime / "include"
    libraries = ["libcudart.so.12", "libcublas.so.12", "libcufft.so.11", "libcusolver.so.11"]
    assert [path.name for path in found.runtime] == libraries


@pytest.mark.parametrize("cuda", ["cuda = None", "cuda: str | None = None"])
def test_a_cpu_build_is_refused_with_what_to_install(torch, tmp_path, cuda):
    (torch / "version.py").write_text(f"__version__ = '2.13.0+cpu'\n{cuda}\n")
    with pytest.raises(BackendUnavailable) as error:
        describe(torch, [])
    assert str(error.value) == (
        "the null device needs the CUDA build of torch, and 2.13.0+cpu was built without CUDA:"
        ' pip install "torch===2.13.0" (on Linux, from PyPI)'
    )


def test_missing_headers_are_refused_with_what_to_install(torch, tmp_path):
    package(tmp_path, "cu13", "cuda.h")  # the other header is missing
    with pytest.raises(BackendUnavailable) as error:
        describe(torch, [tmp_path / "nvidia"])
    assert str(error.value) == (
        "the null device needs the headers of CUDA's runtime, and found none beside torch"
        " 2.13.0+cu130: pip install nvidia-cuda-runtime"
    )
