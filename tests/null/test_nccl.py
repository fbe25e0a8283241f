"""NCCL through its C interface: communicators, what they tell, and what is refused."""

PRELUDE = """
import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_void_p
nccl = ctypes.CDLL(None)
class Id(ctypes.Structure):
    _fields_ = [("internal", c_char * 128)]
nccl.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]
nccl.ncclCommInitRankConfig.argtypes = [c_void_p, c_int, Id, c_int, c_void_p]
nccl.ncclCommInitRankScalable.argtypes = [c_void_p, c_int, c_int, c_int, c_void_p, c_void_p]
id = Id()
id_code = nccl.ncclGetUniqueId(byref(id))
def made(call, *more):
    p = c_void_p(7)
    code = call(byref(p), *more)
    return p if code == 0 else [code, p.value]
def of(comm):
    found = []
    for name in ("Count", "UserRank", "CuDevice", "GetAsyncError"):
        value = c_int(-9)
        code = getattr(nccl, f"ncclComm{name}")(comm, byref(value))
        found.append(value.value if code == 0 else f"error {code}")
    return found
"""


def test_a_communicator_tells_its_size_its_rank_and_its_device(under):
    script = """
nccl.cudaSetDevice(1)
comms = [made(nccl.ncclCommInitRank, 4, id, 3), made(nccl.ncclCommInitRankConfig, 2, id, 0, None)]
comms += [made(nccl.ncclCommInitRankScalable, 5, 2, 1, byref(id), None)]
refused = [made(nccl.ncclCommInitRank, *of) for of in ((4, id, 4), (4, id, -1), (0, id, 0))]
told = [of(comm) for comm in comms] + [of(None)]
told += [nccl.ncclCommCount(comms[0], None)]
ended = [nccl.ncclCommDestroy(comms[0]), nccl.ncclCommAbort(comms[1]), nccl.ncclCommDestroy(None)]
version = c_int()
answer(id_code, told, refused, ended, nccl.ncclGetVersion(byref(version)), version.value // 10000)
"""
    assert under(PRELUDE + script, devices=2) == (
        0,
        [[4, 3, 1, 0], [2, 0, 1, 0], [5, 2, 1, 0], [*["error 4"] * 4], 4],
        [[4, None]] * 3,
        *([0, 0, 0], 0, 2),
    )


def test_the_devices_of_one_process_have_communicators_of_their_own(under):
    script = """
def all_of(*devices):
    comms = (c_void_p * 2)()
    chosen = (c_int * 2)(*devices) if devices else None
    return nccl.ncclCommInitAll(comms, 2, chosen), [comm and of(c_void_p(comm)) for comm in comms]
answer(all_of(), all_of(1, 0), all_of(0, 5), nccl.ncclCommInitAll((c_void_p * 2)(), 0, None))
"""
    made, swapped = ([0, [[2, 0, one, 0], [2, 1, 1 - one, 0]]] for one in (0, 1))
    refused = [4, [[2, 0, 0, 0], None]]
    assert under(PRELUDE + script, devices=2) == (made, swapped, refused, 4)


def test_a_split_has_the_size_that_was_told_and_is_counted_without(under):
    script = """
comm = made(nccl.ncclCommInitRank, 4, id, 3)
def split(color, key=0, of=comm):
    p = c_void_p(7)
    code = nccl.ncclCommSplit(of, color, key, byref(p), None)
    return code, p.value and p
nccl.attnmem_null_split(2, 1)
parts = [split(0), split(-1), split(0, of=None)]
known = counts.unknown_calls()
nccl.attnmem_null_split(0, 0)
parts += [split(1, key=9)]
answer([[code, part and of(part)] for code, part in parts], known, counts.unknown_calls())
"""
    assert under(PRELUDE + script) == (
        [[0, [2, 1, 0, 0]], [0, None], [4, None], [0, [4, 3, 0, 0]]],
        {},
        {"ncclCommSplit": 1},
    )


def test_buffers_of_nccl_are_memory_of_the_device(under):
    script = """
comm, buffer = made(nccl.ncclCommInitRank, 1, id, 0), made(nccl.ncclMemAlloc, c_size_t(3 * MIB))
levels = [device_memory()[0] // MIB]
registered, operation = c_void_p(), c_int()
codes = [nccl.ncclCommRegister(comm, buffer, c_size_t(8), byref(registered))]
codes += [nccl.ncclCommDeregister(comm, registered)]
codes += [nccl.ncclCommRegister(None, buffer, c_size_t(8), byref(registered))]
codes += [nccl.ncclRedOpCreatePreMulSum(byref(operation), None, 7, 0, comm)]
codes += [nccl.ncclRedOpDestroy(operation, comm)]
codes += [nccl.ncclMemFree(buffer), nccl.ncclMemFree(buffer)]
levels += [device_memory()[0]]
work = [getattr(nccl, "nccl" + name)(buffer, buffer, c_size_t(2), 7, 0, comm, None)
        for name in ("AllGather", "AllReduce", "AlltoAll", "Bcast", "Broadcast", "Gather",
                     "Reduce", "ReduceScatter", "Scatter", "Send", "Recv")]
work += [nccl.ncclGroupStart(), nccl.ncclGroupEnd(), nccl.ncclCommFinalize(comm)]
too_large = made(nccl.ncclMemAlloc, c_size_t(1 << 60))
answer(codes, operation.value, levels, set(work) == {0}, too_large, counts.unknown_calls())
"""
    codes = [0, 0, 4, 0, 0, 0, 2]
    assert under(PRELUDE + script) == (codes, 16, [4, 0], True, [2, None], {})
