import shutil
import subprocess
import sys

import pytest

from pytest_attnmem.nulldevice.elf import Function
from pytest_attnmem.nulldevice.stubs import declared, of_calls, of_missing, source, stub

HEADER = """
#define cuMemcpyDtoH                        cuMemcpyDtoH_v2
#define CU_SOMETHING                        cuNot_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI
    cuDeviceGet(CUdevice *device, int ordinal);
typedef CUresult (CUDAAPI *cuCallback)(void);
"""


def test_the_drivers_functions_are_those_of_its_header():
    assert declared(HEADER) == {"cuInit", "cuDeviceGet", "cuMemcpyDtoH_v2"}


@pytest.mark.parametrize(
    ("name", "number", "counted"),
    [
        ("cublasSgemm_v2", 0, False),
        ("cublasSetStream_v2", 0, False),
        ("cublasGetStream_v2", 15, True),
        ("cudaProfilerStart", 0, True),
        ("cudaIpcGetMemHandle", 801, True),
        ("cudaMallocAsync", 801, True),
        ("cuMulticastCreate", 801, True),
        ("cudaGraphLaunch", 801, True),
        ("cufftExecC2C", 16, True),
        ("cusolverSpDestroy", 9, True),
        ("cusparseSpMM", 10, True),
        ("cusparseLtInit", 801, True),
        ("nvrtcCompileProgram", 801, True),
    ],
)
def test_what_would_have_to_answer_fails_and_the_rest_succeeds(name, number, counted):
    assert stub(name) == Function(name, number, counted=counted)


def test_the_source_lists_its_names_in_order_whatever_order_they_come_in():
    one, other = source(["cuB", "cuA"]), source({"cuA", "cuB"})
    assert one == other
    assert '{"cuA", "cuB", NULL}' in one
    assert "STUB(cuA, 0)\nSTUB(cuB, 0)" in one


def names(image, *expected):
    return {name for name in expected if f"{name}\0".encode() in image}


def test_calls_have_what_torch_imports_and_libraries_export_but_not_what_is_defined():
    imported = {"cudaMalloc", "cublasSgemm_v2", "malloc", "cudnnCreate", "cusparseLtInit"}
    image = of_calls(imported, {"cudaNew", "_init"}, frozenset({"cudaMalloc"}))
    assert names(image, *imported, "cudaNew", "_init") == {"cublasSgemm_v2", "cudaNew"}


def test_texts_of_errors_and_versions_stay_the_libraries_own():
    texts = {"cudaGetErrorName", "cudaGetErrorString", "cudaCreateChannelDesc", "cufftGetVersion"}
    assert names(of_calls(texts, texts, frozenset()), *texts) == set()


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler")
class TestMissing:
    """A library of torch that needs three of NVIDIA's, one of which is there."""

    @pytest.fixture
    def torch(self, tmp_path):
        folder = tmp_path / "torch" / "lib"
        folder.mkdir(parents=True)

        def library(name, code, *more):
            path = tmp_path / f"{name}.c"
            path.write_text(code)
            command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name)]
            subprocess.run([*command, str(path), *more], check=True)

        needed = {
            "libcudart.so.13": "int cudaMalloc(void) { return 7; }",
            "libcudnn.so.9": "int cudnnCreate(void) { return 0; }"
            "long cudnnGetVersion(void) { return 0; }",
            "libnccl.so.2": "int ncclSend(void) { return 0; }",
            "libother.so.1": "int other(void) { return 0; }",
        }
        for name, code in needed.items():
            library(name, code)
        library(
            "libtorch_cuda.so",
            "int cudaMalloc(void), cudnnCreate(void), ncclSend(void), other(void);"
            "long cudnnGetVersion(void);"
            "long all(void) { return cudaMalloc() + cudnnCreate() + ncclSend() + other(); }"
            "long version(void) { return cudnnGetVersion(); }",
            *(str(folder / name) for name in needed), "-Wl,-rpath,$ORIGIN",
        )  # fmt: skip
        for name in ("libcudnn.so.9", "libnccl.so.2"):
            (folder / name).unlink()
        return tmp_path / "torch"

    def test_each_library_of_nvidias_that_is_not_there_is_written(self, torch):
        found = of_missing(torch, ["libcuda.so.1"], 92000)
        assert set(found) == {"libcudnn.so.9", "libnccl.so.2"}
        written = b"".join(found.values())
        assert names(written, "cudnnCreate", "cudnnGetVersion", "ncclSend", "other") == {
            "cudnnCreate", "cudnnGetVersion", "ncclSend",
        }  # fmt: skip

    def test_torch_loads_with_them_and_sees_the_version_of_cudnn_that_it_wants(self, torch):
        for name, image in of_missing(torch, [], 92000).items():
            (torch / "lib" / name).write_bytes(image)
        script = (
            f"import ctypes; print(ctypes.CDLL({str(torch / 'lib/libtorch_cuda.so')!r}).version())"
        )
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert run.stdout == "92000\n"
        assert set(of_missing(torch, [], 92000)) == {"libcudnn.so.9", "libnccl.so.2"}

    def test_one_that_the_runtime_has_needs_no_stub(self, torch):
        assert set(of_missing(torch, ["libnccl.so.2"], 0)) == {"libcudnn.so.9"}
