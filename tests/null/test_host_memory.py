"""A host that is out of memory: each call that needs some says so, and the accounts stay right."""

import os
import subprocess
from pathlib import Path

import pytest

from pytest_attnmem.nulldevice.build import find_compiler

SOURCE = Path(__file__).parents[1] / "nulldevice" / "failing_malloc.c"

PRELUDE = """
import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_void_p
preloaded = os.environ["LD_PRELOAD"].split(":")
host = ctypes.CDLL(next(path for path in preloaded if "failing_malloc" in path))
failing, spared = (c_int.in_dll(host, name) for name in ("failing", "spared"))
cuda = ctypes.CDLL(None)
SIZE = c_size_t(2 * MIB)
def asked(call, spare=0):
    "Returns the code, whether there is a result, and by how much the account grew."
    p, before = c_void_p(), device_memory()[0]
    failing.value, spared.value = 1, spare
    code = call(byref(p))
    failing.value = 0
    return [code, bool(p), (device_memory()[0] - before) // (2 * MIB)]
"""


@pytest.fixture
def without(under, tmp_path, monkeypatch):
    """Returns a function like ``under`` for scripts that let the runtime's requests fail."""
    library = tmp_path / "failing_malloc.so"
    command = [*find_compiler(), "-shared", "-fPIC", "-O1", "-o", library, SOURCE]
    subprocess.run(command, check=True, timeout=60)
    monkeypatch.setenv("LD_PRELOAD", f"{library}:{os.environ.get('LD_PRELOAD', '')}")
    return lambda script: under(PRELUDE + script, ATTNMEM_TEST="needs a process of its own")


def test_calls_that_need_memory_of_the_host_fail_and_leave_the_accounts(without):
    script = """
class Properties(ctypes.Structure):  # CUmemAllocationProp, as far as it matters here
    _fields_ = [("type", c_int), ("handles", c_int), ("location", c_int), ("id", c_int),
                ("rest", c_char * 64)]
class Id(ctypes.Structure):  # ncclUniqueId
    _fields_ = [("internal", c_char * 128)]
cuda.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]
def create(p):
    return cuda.cuMemCreate(p, SIZE, byref(Properties(1, 0, 1, 0)), c_uint64(0))
def reserve(p):
    return cuda.cuMemAddressReserve(p, SIZE, c_size_t(0), c_uint64(0), c_uint64(0))
assert cuda.cudaSetDevice(0) == 0  # without its context, a process could only end
buffers = [ctypes.create_string_buffer(64) for _ in range(200)]
each = [cuda.cudaStreamCreate, cuda.cudaEventCreate, create,
        lambda p: cuda.ncclCommInitRank(p, 1, Id(), 0)]
if_full = {  # these need some if a table is full; the second value is what they need before
    "cudaMalloc": (lambda p: cuda.cudaMalloc(p, SIZE), 0),
    "cudaMallocManaged": (lambda p: cuda.cudaMallocManaged(p, SIZE, 1), 0),
    "cuMemAddressReserve": (reserve, 0),
    "cudaHostAlloc": (lambda p: cuda.cudaHostAlloc(p, c_size_t(8), 0), 0),
    "cudaHostRegister": (lambda p: cuda.cudaHostRegister(buffers.pop(), c_size_t(8), 0), 0),
    "cuMemCreate": (create, 1),
}
first = [asked(call) for call in each] + [asked(if_full["cudaMalloc"][0])]
again = [call(byref(c_void_p())) for call in each]
full = {}
for name, (call, before) in if_full.items():
    call(byref(c_void_p()))  # the table is there
    for done in range(200):
        found = asked(call, before)
        if found[0]:
            break
    full[name] = [done > 0, found, call(byref(c_void_p()))]
answer(first, again, full, cuda.cudaGetLastError(), cuda.cudaGetLastError())
"""
    nothing = [2, False, 0]  # out of memory; ncclSystemError
    assert without(script) == (
        [nothing] * 5,
        [0] * 4,
        {
            name: [True, nothing, 0]
            for name in (
                *("cudaMalloc", "cudaMallocManaged", "cuMemAddressReserve"),
                *("cudaHostAlloc", "cudaHostRegister", "cuMemCreate"),
            )
        },
        *(2, 0),
    )


def test_what_is_only_remembered_is_forgotten_then(without):
    """An upload is not kept, a kernel has the device's own image, and cuDNN has its own error."""
    script = """
from importlib.util import find_spec
block, kept = c_void_p(), ctypes.create_string_buffer(3)
assert cuda.cudaMalloc(byref(block), SIZE) == 0
def upload(to):
    return cuda.cudaMemcpy(block, b"abc", c_size_t(3), 1)
cuda.attnmem_null_uploaded.argtypes = [c_void_p, c_void_p, c_size_t]
def uploaded():
    return cuda.attnmem_null_uploaded(block, kept, 3), kept.raw.decode()
uploads = [asked(upload), *uploaded(), upload(None), *uploaded()]
class Attributes(ctypes.Structure):  # cudaFuncAttributes
    _fields_ = [("sizes", c_size_t * 3), ("threads", c_int), ("registers", c_int), ("ptx", c_int),
                ("binary", c_int), ("rest", c_char * 256)]
def image(kernel):
    attributes = Attributes()
    assert cuda.cudaFuncGetAttributes(byref(attributes), c_void_p(kernel)) == 0
    return attributes.binary
def register(kernel):
    cuda.__cudaRegisterFunction(c_void_p(75 + 1), c_void_p(kernel))
    return image(kernel)
images = [asked(lambda p: register(16))[0], register(16)]
failing.value = 1
images += [register(16 * n) for n in (*range(2, 3000), 3000)][::2998] + [image(32)]
failing.value = 0
images += [register(16 * 3000), image(32)]
(nvidia,) = find_spec("nvidia.cudnn").submodule_search_locations
ctypes.CDLL(f"{nvidia}/lib/libcudnn.so.9", mode=ctypes.RTLD_GLOBAL)
def tensor(p):
    return cuda.cudnnBackendCreateDescriptor(17, p)
cudnn = [asked(tensor), tensor(byref(c_void_p()))]
answer(uploads, images, cudnn)
"""
    uploads, images, cudnn = without(script)
    assert uploads == [[0, False, 0], 0, "\0\0\0", 0, 1, "abc"]
    assert cudnn == [[4003, False, 0], 0]
    assert images == [80, 75, 75, 80, 75, 75, 75]
