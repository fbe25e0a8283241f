"""cuBLAS's handles and descriptors, of which PyTorch has a workspace for each handle."""


def test_handles_differ_and_have_the_modes_that_cublas_begins_with(under):
    script = """
import ctypes
from ctypes import byref, c_int, c_int64, c_size_t, c_uint64, c_void_p
blas = ctypes.CDLL(None)
def made(name, *more):
    p = c_void_p()
    assert getattr(blas, name)(byref(p), *more) == 0
    return p.value
handles = [made(name) for name in ("cublasCreate_v2", "cublasLtCreate") for _ in range(3)]
handles += [made("cublasLtMatmulDescCreate", 68, 0), made("cublasLtMatmulPreferenceCreate")]
handles += [made("cublasLtMatrixLayoutCreate", 0, c_uint64(2), c_uint64(3), c_int64(2))]
mode = c_int(9)
modes = []
for name in ("cublasGetMathMode", "cublasGetPointerMode_v2"):
    modes += [getattr(blas, name)(c_void_p(handles[0]), byref(mode)), mode.value]
class Result(ctypes.Structure):  # cublasLtMatmulHeuristicResult_t
    _fields_ = [("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int),
                ("waves", ctypes.c_float), ("reserved", c_int * 4)]
results, found = (Result * 2)(Result(workspace=7, state=7), Result(workspace=7)), c_int(9)
def plans(requested):
    code = blas.cublasLtMatmulAlgoGetHeuristic(
        c_void_p(handles[3]), *[None] * 6, requested, results, byref(found))
    return code, found.value, [(r.workspace, r.state) for r in results]
answer(len(set(handles)), 0 in handles, modes, plans(0), plans(2), counts.unknown_calls())
"""
    assert under(script) == (
        *(9, False, [0, 0, 0, 0]),
        [0, 0, [[7, 7], [7, 0]]],
        [0, 1, [[0, 0], [7, 0]]],
        {},
    )
