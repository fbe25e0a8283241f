"""Devices, contexts and their limits through the C interface, as CUDA documents them."""

import pytest

PRELUDE = """
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p, create_string_buffer
cuda = ctypes.CDLL(None)
def number(call, *more, of=c_int):
    value = of(-9)
    code = call(byref(value), *more)
    return value.value if code == 0 else f"error {code}"
def pointer(call, *more):
    value = c_void_p()
    code = call(byref(value), *more)
    return value.value if code == 0 else f"error {code}"
def current():
    return pointer(cuda.cuCtxGetCurrent)
def push(context):
    return cuda.cuCtxPushCurrent_v2(c_void_p(context))
def pop():
    return pointer(cuda.cuCtxPopCurrent_v2)
def on():
    return number(cuda.cudaGetDevice), number(cuda.cuCtxGetDevice)
def limit(name):
    return number(cuda.cuCtxGetLimit, name, of=c_size_t)
"""


def test_a_thread_has_no_context_until_one_is_made_current(under):
    script = """
nothing = [current(), on(), cuda.cuCtxSynchronize(), limit(0), pop(), cuda.cuCtxSetCurrent(None)]
nothing += [cuda.cuCtxSetLimit(0, c_size_t(1))]
def state(device):
    flags, active = c_uint(9), c_int(9)
    code = cuda.cuDevicePrimaryCtxGetState(device, byref(flags), byref(active))
    return code, flags.value, active.value
states = [state(1)]
a, b = (pointer(cuda.cuDevicePrimaryCtxRetain, device) for device in range(2))
states += [state(1), state(2)]
retained = [current(), pointer(cuda.cuDevicePrimaryCtxRetain, 2)]
retained += [cuda.cuDevicePrimaryCtxRelease_v2(1), cuda.cuDevicePrimaryCtxRelease_v2(2)]
bound = [cuda.cudaSetDevice(1), current() == b, on(), cuda.cuCtxSynchronize()]
bound += [cuda.cudaSetDevice(2), cuda.cudaSetDevice(-1), cuda.cudaGetLastError(), on()]
answer(nothing, states, retained, bound, a != b)
"""
    none = "error 201"
    assert under(PRELUDE + script, devices=2) == (
        [None, [0, none], 201, none, none, 0, 201],
        [[0, 0, 0], [0, 0, 1], [101, 9, 9]],
        [None, "error 101", 0, 101],
        [0, True, [1, 1], 0, 101, 101, 101, [1, 1]],
        True,
    )


def test_what_was_pushed_is_popped_and_the_runtime_binds_again(under):
    script = """
a, b = (pointer(cuda.cuDevicePrimaryCtxRetain, device) for device in range(2))
cuda.cudaSetDevice(1)
steps = [push(a), on(), pop() == a, on(), current() == b, pop() == b, current(), on()]
steps += [cuda.cudaDeviceSynchronize(), current() == b, on()]
steps += [cuda.cuCtxSetCurrent(c_void_p(a)), on(), cuda.cuCtxSetCurrent(None), current()]
steps += [cuda.cudaFree(None), on(), cuda.cuCtxPopCurrent_v2(None), current()]
deep = [push(None), [push(b if i % 2 else a) for i in range(17)], on()]
deep += [[pop() == (b if i % 2 else a) for i in reversed(range(16))], current()]
answer(steps, deep)
"""
    none = "error 201"
    assert under(PRELUDE + script, devices=2) == (
        [
            *(0, [0, 0], True, [1, 1], True, True, None, [1, none]),
            *(0, True, [1, 1]),
            *(0, [0, 0], 0, None),
            *(0, [0, 0], 0, None),
        ],
        [201, [0] * 16 + [2], [1, 1], [True] * 16, None],
    )


def test_a_limit_is_what_was_set_in_its_context(under):
    script = """
cuda.cudaSetDevice(0)
found = [limit(name) for name in range(4)] + [cuda.cuCtxSetLimit(1, c_size_t(4 * MIB))]
found += [cuda.cuCtxSetLimit(3, c_size_t(1)), limit(1), limit(2)]
cuda.cudaSetDevice(1)
answer(found, limit(1))
"""
    assert under(PRELUDE + script, devices=2) == (
        [1024, 2**20, 8 * 2**20, "error 215", 0, 215, 4 * 2**20, 8 * 2**20],
        2**20,
    )


def test_the_driver_and_the_runtime_tell_the_same_of_a_device(under):
    script = """
import torch
name, small = create_string_buffer(64), create_string_buffer(5)
found = [cuda.cuDeviceGetName(name, 64, 1), name.value.decode()]
found += [cuda.cuDeviceGetName(small, 5, 1), small.value.decode(), cuda.cuDeviceGetName(name, 0, 1)]
found += [cuda.cuDeviceGetName(name, 64, 2)]
found += [number(cuda.cuDeviceTotalMem_v2, d, of=c_size_t) for d in (1, 2)]
bus = create_string_buffer(13)
found += [cuda.cudaDeviceGetPCIBusId(bus, 13, 1), bus.value.decode()]
found += [cuda.cudaDeviceGetPCIBusId(bus, 12, 1), cuda.cudaDeviceGetPCIBusId(bus, 13, 2)]
attributes = [number(call, 16, d) for d in (0, 2)
              for call in (cuda.cuDeviceGetAttribute, cuda.cudaDeviceGetAttribute)]
properties = create_string_buffer(4096)
attributes += [call(properties, 2) for call in (
    getattr(cuda, "cudaGetDeviceProperties_v2", None) or cuda.cudaGetDeviceProperties,)]
counted = [cuda.cuInit(0), cuda.cuInit(1), number(cuda.cuDeviceGetCount)]
counted += [number(cuda.cuDeviceGet, d) for d in (1, 2)]
counted += [cuda.cudaInitDevice(d, 0, 0) for d in (1, 2)]
peers = [number(cuda.cudaDeviceCanAccessPeer, 0, d) for d in (1, 2)]
peers += [cuda.cudaDeviceEnablePeerAccess(d, 0) for d in (1, 1, 0, 2)]
versions = {number(call) for call in (
    cuda.cudaDriverGetVersion, cuda.cudaRuntimeGetVersion, cuda.cuDriverGetVersion)}
same = [version // 1000 for version in versions] == [int(torch.version.cuda.split(".")[0])]
answer(found, attributes, counted, peers, same)
"""
    assert under(PRELUDE + script, devices=2) == (
        [
            *(0, "NVIDIA A100-80GB (attnmem null device)", 0, "NVID", 1, 101),
            *(85_031_714_816, "error 101"),
            *(0, "0000:02:00.0", 1, 101),
        ],
        [108, 108, "error 101", "error 101", 101],
        [0, 1, 2, 1, "error 101", 0, 101],
        [1, "error 101", 0, 704, 101, 101],
        True,
    )


def test_without_devices_there_is_nothing_to_use(under):
    script = """
a, b = c_size_t(), c_size_t()
p = c_void_p()
answer(cuda.cuInit(0), cuda.cudaGetDeviceCount(byref(c_int())), number(cuda.cuDeviceGetCount),
       cuda.cudaSetDevice(0), cuda.cudaMalloc(byref(p), c_size_t(8)), p.value, current(),
       cuda.cudaMemGetInfo(byref(a), byref(b)), cuda.cuMemGetInfo_v2(byref(a), byref(b)),
       cuda.attnmem_null_memory(0, byref(a), byref(b)))
"""
    found = under(PRELUDE + script, CUDA_VISIBLE_DEVICES="")
    assert found == (100, 100, "error 3", 101, 2, None, None, 100, 100, -1)


def test_the_driver_answers_once_it_is_initialized(under):
    """So PyTorch's tests see that no import initializes it."""
    script = """
import torch
torch.cuda.device_count()
asked = [number(cuda.cuDeviceGetCount), number(cuda.cuDeviceGet, 0)]
torch.ones(1, device="cuda")
answer(asked, number(cuda.cuDeviceGetCount), number(cuda.cuDeviceGet, 0))
"""
    assert under(PRELUDE + script) == (["error 3", "error 3"], 1, 0)


def test_a_profile_decides_what_a_device_can_do_and_without_one_there_is_none(under):
    script = """
copies, clusters, registers = 40, 120, 12
found = [number(cuda.cudaDeviceGetAttribute, name, 0) for name in (copies, clusters, registers)]
p, level, peak = c_void_p(), c_size_t(), c_size_t()
cuda.cudaMalloc(byref(p), c_size_t(MIB))
cuda.cudaFree(p)
for device in (1, -1, 0):
    cuda.attnmem_null_reset_peak(device)
    cuda.attnmem_null_memory(0, byref(level), byref(peak))
    found += [peak.value // MIB]
answer(*found)
"""
    none = "error 101"
    hopper = under(PRELUDE + script, "H100", ATTNMEM_TEST="a process without torch")
    assert hopper == (2, 1, 65536, 2, 2, 0)
    assert under(PRELUDE + script)[:2] == (2, 0)
    gone = under(PRELUDE + script, ATTNMEM_NULL_MEMORY="0", ATTNMEM_NULL_NAME="")
    assert gone == (none, none, none, 0, 0, 0)


@pytest.mark.parametrize(
    ("device", "peers", "converted", "gathered"),
    [("H100", True, [0, 8], [0, 8]), ("H100-PCIe", False, [0, 24], [8, 8])],
)
def test_a_copy_between_peers_takes_no_temporary_memory(under, device, peers, converted, gathered):
    """``copy_requires_temporaries`` (ATen/native/cuda/Copy.cu): 16 MiB of float32, in MiB."""
    script = """
import torch
def copied(copy):
    for d in (0, 1):
        torch.cuda.reset_peak_memory_stats(d)
    levels = [torch.cuda.memory_allocated(d) for d in (0, 1)]
    copy(x)
    peaks = [torch.cuda.memory_stats(d)["requested_bytes.all.peak"] for d in (0, 1)]
    return [(peak - level) / MIB for peak, level in zip(peaks, levels)]
x = torch.empty(2048, 2048, device="cuda:0")
answer(torch.cuda.can_device_access_peer(0, 1), torch.cuda.can_device_access_peer(0, 0),
       copied(lambda x: x.to("cuda:1", torch.float16)), copied(lambda x: x[:, ::2].to("cuda:1")),
       copied(lambda x: x.t().to("cuda:1")), torch.cuda.memory_allocated(1))
"""
    assert under(script, device, devices=2) == (peers, False, converted, gathered, [0, 16], 0)
