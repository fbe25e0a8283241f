import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import kept_build, torch_build
from pytest_attnmem.nulldevice.torch_build import describe, find, find_headers, read_version

from .written_torch import write_torch


def package(root, name, *headers, library="", version=13000):
    folder = root / "nvidia" / name
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    for header in headers:
        (folder / "include" / header).write_text(f"#define CUDA_VERSION {version}\n")
    if library:
        (folder / "lib" / library).touch()
    return folder


def test_a_build_for_cuda_13_has_its_libraries_in_one_folder(tmp_path):
    package(tmp_path, "cu13", library="libcudart.so.13")
    folder = write_torch(tmp_path)
    for name in ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_cpu.so"):
        (folder / "lib" / name).touch()
    found = describe(folder, [tmp_path / "nvidia"])
    assert (found.version, found.cuda, found.major) == ("2.13.0+cu130", "13.0", 13)
    assert [path.name for path in found.libraries] == ["libtorch_cuda.so", "libc10_cuda.so"]
    assert [path.name for path in found.runtime] == ["libcudart.so.13"]


def test_a_build_for_cuda_12_has_a_package_a_library(tmp_path):
    package(tmp_path, "cublas", library="libcublas.so.12")
    package(tmp_path, "cufft", library="libcufft.so.11")
    package(tmp_path, "cusolver", library="libcusolver.so.11")
    package(tmp_path, "cuda_runtime", library="libcudart.so.12")
    found = describe(write_torch(tmp_path), [tmp_path / "nvidia"])
    libraries = ["libcudart.so.12", "libcublas.so.12", "libcufft.so.11", "libcusolver.so.11"]
    assert [path.name for path in found.runtime] == libraries


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("Requires-Dist: nvidia-cudnn-cu13==9.20.0.48; platform_system == 'Linux'", 92000),
        ("Requires-Dist: nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == 'Linux'", 90100),
        ("", 0),
    ],
)
def test_the_cudnn_that_torch_is_made_for_is_that_of_its_metadata(tmp_path, line, version):
    assert describe(write_torch(tmp_path, requires=line), []).cudnn == version


def test_headers_are_whole_and_of_the_same_major_version(tmp_path):
    package(tmp_path, "a", "cuda.h")  # the other header is missing
    package(tmp_path, "b", "cuda.h", "cuda_runtime_api.h", version=12080)
    new = package(tmp_path, "c", "cuda.h", "cuda_runtime_api.h", version=13020)
    roots = [tmp_path / "nvidia"]
    assert find_headers(roots, 13) == new / "include"
    assert find_headers(roots, 14) is None


@pytest.mark.parametrize("cuda", ["None", "''"])
def test_a_build_without_cuda_says_so(tmp_path, cuda):
    assert read_version(write_torch(tmp_path, "2.13.0+cpu", cuda)).cuda == ""


class TestCpuBuild:
    """An environment whose torch was built without CUDA."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path, monkeypatch):
        folder = write_torch(tmp_path / "site", "2.13.0+cpu", "None")
        monkeypatch.setattr(torch_build, "find_folder", lambda: folder)
        monkeypatch.setattr(torch_build, "packages", list)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def test_the_one_command_is_named(self):
        assert refusal(find) == (
            "the null device needs the CUDA build of torch, and 2.13.0+cpu was built without CUDA:"
            " attnmem install null keeps one beside it"
        )

    def test_the_kept_build_stands_in_front(self):
        kept = kept_build.folder("2.13.0")
        write_torch(kept)
        found = find()
        assert (found.version, found.folder, found.front) == ("2.13.0+cu130", kept / "torch", kept)

    def test_a_kept_build_of_another_commit_is_refused(self):
        kept = kept_build.folder("2.13.0")
        write_torch(kept, commit="other")
        assert refusal(find) == (
            f"the CUDA build of torch 2.13.0+cu130 in {kept} is of another commit than torch"
            " 2.13.0+cpu: attnmem install null replaces it"
        )
