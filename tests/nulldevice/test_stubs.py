import pytest

from pytest_attnmem.nulldevice.stubs import source, wanted

HEADER = """
#define cuMemcpyDtoH                        cuMemcpyDtoH_v2
#define CU_SOMETHING                        cuNot_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI
    cuDeviceGet(CUdevice *device, int ordinal);
typedef CUresult (CUDAAPI *cuCallback)(void);
"""


def test_names_of_cuda_are_wanted_from_libraries_and_the_drivers_header():
    undefined = {
        "cudaMalloc", "__cudaGetKernel", "cublasSgemm_v2", "cublasLtMatmul", "cuInit",
        "cufftXtExec", "cusolverDnCreate", "cusparseCreate",
    }  # fmt: skip
    others = {"malloc", "cudnnCreate", "cusparseLtInit", "curandCreate", "cuFileRead", "custom"}
    found = wanted(undefined | others, {"cudaNew", "_init"}, HEADER)
    assert found == undefined | {"cudaNew", "cuDeviceGet", "cuMemcpyDtoH_v2"}


def test_texts_of_errors_and_versions_stay_the_libraries_own():
    texts = {"cudaGetErrorName", "cudaGetErrorString", "cudaCreateChannelDesc", "cufftGetVersion"}
    assert wanted(texts, texts, "") == frozenset()


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("cublasSgemm_v2", "QUIET(cublasSgemm_v2)"),
        ("cublasSetStream_v2", "QUIET(cublasSetStream_v2)"),
        ("cublasGetStream_v2", "COUNTED(cublasGetStream_v2, 15)"),
        ("cudaProfilerStart", "COUNTED(cudaProfilerStart, 0)"),
        ("cudaIpcGetMemHandle", "COUNTED(cudaIpcGetMemHandle, 801)"),
        ("cudaMallocAsync", "COUNTED(cudaMallocAsync, 801)"),
        ("cuMulticastCreate", "COUNTED(cuMulticastCreate, 801)"),
        ("cudaGraphLaunch", "COUNTED(cudaGraphLaunch, 801)"),
        ("cufftExecC2C", "COUNTED(cufftExecC2C, 16)"),
        ("cusolverSpDestroy", "COUNTED(cusolverSpDestroy, 9)"),
        ("cusparseSpMM", "COUNTED(cusparseSpMM, 10)"),
    ],
)
def test_what_would_have_to_answer_fails_and_the_rest_succeeds(name, definition):
    assert definition in source([name]).splitlines()


def test_the_source_lists_its_names_in_order_whatever_order_they_come_in():
    one, other = source(["cudaB", "cudaA"]), source({"cudaA", "cudaB"})
    assert one == other
    assert '{"cudaA", "cudaB", NULL}' in one
    assert "{NULL}" in source([])
