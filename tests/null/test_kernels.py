"""Modules, libraries, kernels and their launches through the C interface."""

PRELUDE = """
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p, create_string_buffer
cuda = ctypes.CDLL(None)
class Dim3(ctypes.Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]
def made(call, *more):
    p = c_void_p()
    code = call(byref(p), *more)
    return p if code == 0 else f"error {code}"
def told(call, *more):
    value = c_int(-9)
    code = call(byref(value), *more)
    return value.value if code == 0 else f"error {code}"
image, name = create_string_buffer(b"an image"), create_string_buffer(b"a kernel")
"""


def test_a_module_gives_functions_and_a_file_must_be_there(under, tmp_path):
    script = """
module = made(cuda.cuModuleLoadData, image)
modules = [made(cuda.cuModuleLoad, FILE), made(cuda.cuModuleLoadDataEx, image, 0, None, None)]
refused = [made(cuda.cuModuleLoadData, None), made(cuda.cuModuleLoad, None)]
refused += [made(cuda.cuModuleLoad, FILE + b"x"), made(cuda.cuModuleGetFunction, module, None)]
refused += [made(cuda.cuModuleGetFunction, None, name), cuda.cuModuleUnload(None)]
function = made(cuda.cuModuleGetFunction, module, name)
THREADS, STATIC, REGISTERS, PTX, BINARY, DYNAMIC = 0, 1, 4, 5, 6, 8
attributes = [told(cuda.cuFuncGetAttribute, a, function)
              for a in (THREADS, STATIC, REGISTERS, PTX, BINARY, -1, 1000)]
attributes += [told(cuda.cuFuncGetAttribute, 0, None)]
settings = [cuda.cuFuncSetAttribute(function, DYNAMIC, kib * 1024) for kib in (99, 100, -1)]
settings += [cuda.cuFuncSetAttribute(None, DYNAMIC, 1), cuda.cuFuncSetCacheConfig(function, 1)]
settings += [cuda.cuFuncSetCacheConfig(None, 1)]
answer(all(m.value == module.value for m in modules), refused, attributes, settings,
       cuda.cuModuleUnload(module))
"""
    file = tmp_path / "a.cubin"
    file.write_bytes(b"an image")
    script = f"FILE = {bytes(file)!r}\n" + PRELUDE + script
    refused = ["error 1", "error 1", "error 301", "error 1", "error 400", 400]
    attributes = [1024, 0, 64, 86, 86, "error 1", "error 1", "error 400"]
    assert under(script, "RTX 3090") == (True, refused, attributes, [0, 1, 1, 400, 0, 400], 0)


def test_a_library_gives_kernels_that_are_functions(under, tmp_path):
    script = """
options = (None, None, 0, None, None, 0)
library = made(cuda.cuLibraryLoadData, image, *options)
same = made(cuda.cuLibraryLoadFromFile, FILE, *options).value == library.value
kernel = made(cuda.cuLibraryGetKernel, library, name)
function = made(cuda.cuKernelGetFunction, kernel)
module = made(cuda.cuLibraryGetModule, library)
used = [cuda.cuModuleUnload(module), told(cuda.cuFuncGetAttribute, 0, function)]
used += [told(cuda.cuKernelGetAttribute, 6, kernel, 0)]
used += [cuda.cuKernelSetAttribute(8, kib * 1024, kernel, 0) for kib in (163, 164)]
used += [cuda.cuKernelSetCacheConfig(kernel, 1, 0), cuda.cuLibraryUnload(library)]
refused = [made(cuda.cuLibraryLoadData, None, *options)]
refused += [made(cuda.cuLibraryLoadFromFile, FILE + b"x", *options)]
refused += [made(cuda.cuLibraryGetKernel, library, None)]
refused += [made(cuda.cuLibraryGetKernel, None, name), made(cuda.cuLibraryGetModule, None)]
refused += [made(cuda.cuKernelGetFunction, None), told(cuda.cuKernelGetAttribute, 6, None, 0)]
refused += [cuda.cuKernelSetAttribute(8, 1, None, 0), cuda.cuKernelSetCacheConfig(None, 1, 0)]
refused += [cuda.cuLibraryUnload(None)]
answer(same, used, refused, counts.unknown_calls())
"""
    file = tmp_path / "a.cubin"
    file.write_bytes(b"an image")
    handle = "error 400"
    assert under(f"FILE = {bytes(file)!r}\n" + PRELUDE + script) == (
        True,
        [0, 1024, 80, 0, 1, 0, 0],
        ["error 1", "error 301", "error 1", *[handle] * 4, 400, 400, 400],
        {},
    )


def test_every_launch_is_checked_and_counted(under):
    script = """
function = made(cuda.cuModuleGetFunction, made(cuda.cuModuleLoadData, image), name)
launched = ctypes.c_ulong.in_dll(cuda, "attnmem_null_foreign_launches")
class Launch(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint),
                ("stream", c_void_p), ("attributes", c_void_p), ("count", c_uint)]
class RuntimeLaunch(ctypes.Structure):  # cudaLaunchConfig_t
    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_size_t),
                ("stream", c_void_p), ("attributes", c_void_p), ("count", c_uint)]
runtime = cuda.cudaLaunchKernel, cuda.cudaLaunchCooperativeKernel, cuda.__cudaLaunchKernel
for call in runtime:
    call.argtypes = [c_void_p, Dim3, Dim3, c_void_p, c_size_t, c_void_p]
def each(threads, f=function):
    sizes = (1, 1, 1, threads, 1, 1)
    grid, block = (c_uint * 3)(1, 1, 1), (c_uint * 3)(threads, 1, 1)
    kernel = ctypes.cast(cuda.cuInit, c_void_p)
    return [
        cuda.cuLaunchKernel(f, *sizes, 0, None, None, None),
        cuda.cuLaunchCooperativeKernel(f, *sizes, 0, None, None),
        cuda.cuLaunchKernelEx(byref(Launch(grid, block)), f, None, None),
        cuda.cudaLaunchKernelExC(byref(RuntimeLaunch(grid, block)), kernel, None),
        *(call(kernel, Dim3(1, 1, 1), Dim3(threads, 1, 1), None, 0, None) for call in runtime),
    ]
before = launched.value
taken, count = each(1024), launched.value - before
def fits(*sizes):
    return cuda.cuLaunchKernel(function, *sizes, 0, None, None, None) == 0
most = (2**31 - 1, 65535, 65535)
grids = [fits(*most, 1, 1, 1)] + [fits(*[n + (i == j) for j, n in enumerate(most)], 1, 1, 1)
                                  for i in range(3)]
grids += [fits(*[int(i != j) for j in range(6)]) for i in range(6)]
blocks = [fits(1, 1, 1, *of) for of in ((1024, 1, 1), (1, 1024, 1), (4, 4, 64), (16, 16, 4))]
blocks += [fits(1, 1, 1, *of) for of in ((1025, 1, 1), (1, 1025, 1), (1, 1, 65), (32, 32, 2))]
one = Dim3(1, 1, 1)
shared = [cuda.cudaLaunchKernel(None, one, one, None, kib * 1024, None) for kib in (163, 164)]
answer(taken, count, each(1025), cuda.cudaGetLastError(), each(1, None)[:3], grids, blocks, shared)
"""
    assert under(PRELUDE + script) == (
        *([0] * 7, 7, [1] * 3 + [9] * 4, 9, [400] * 3),
        [True] + [False] * 9,
        [True] * 4 + [False] * 4,
        [0, 1],
    )


def test_a_kernel_has_the_image_that_the_device_would_run(under):
    """A binary runs on its own generation, on later devices of it; another one is for none."""
    script = """
import struct
def binary(*architectures, magic=0xBA55ED50):
    images = b"".join(struct.pack("<HHIQIIHHI", 2, 1, 32, 0, 0, 0, 0, 0, a) for a in architectures)
    text = create_string_buffer(struct.pack("<IHHQ", magic, 1, 16, len(images)) + images)
    wrapper = struct.pack("<IIQ", 0x466243B1, 1, ctypes.addressof(text))
    return create_string_buffer(wrapper), text
register, add = cuda.__cudaRegisterFatBinary, cuda.__cudaRegisterFunction
register.restype, add.argtypes = c_void_p, [c_void_p, c_void_p]
class Attributes(ctypes.Structure):  # cudaFuncAttributes
    _fields_ = [("sizes", c_size_t * 3), ("threads", c_int), ("registers", c_int), ("ptx", c_int),
                ("binary", c_int), ("rest", ctypes.c_char * 256)]
def of(kernel):
    attributes = Attributes()
    assert cuda.cudaFuncGetAttributes(byref(attributes), c_void_p(kernel)) == 0
    return attributes.ptx, attributes.binary
def registered(kernel, *architectures, **other):
    wrapper, text = binary(*architectures, **other)
    handle = register(wrapper)
    add(handle, c_void_p(kernel))
    return handle and of(kernel)
kept = [registered(64 * i, *images) for i, images in enumerate(
    ((70, 75, 80), (80, 86, 90), (86, 80), (90, 75), (87, 80), ()), start=1)]
kept += [registered(1024, 80, magic=1), registered(64, 86), of(4096)]
for i in range(5000):  # the table grows
    registered(1 << 20 | i << 4, 80)
answer(kept, {of(1 << 20 | i << 4) for i in range(5000)} == {(80, 80)}, of(128))
"""
    own, older = [86, 86], [80, 80]
    alone = {"ATTNMEM_TEST": "a process without torch"}
    assert under(PRELUDE + script, "RTX 3090", **alone) == (
        [older, own, own, own, older, own, own, own, own],
        *(True, own),
    )
    tegra = under(PRELUDE + script, ATTNMEM_NULL_CAPABILITY="87")  # runs its own binaries alone
    assert tegra[0] == [[87, 87]] * 9


def test_occupancy_is_bounded_by_threads_blocks_and_shared_memory(under):
    script = """
function = made(cuda.cuModuleGetFunction, made(cuda.cuModuleLoadData, image), name)
def blocks(threads, kib):
    size = c_size_t(kib * 1024)
    found = {told(call, function, threads, size, *more) for call, *more in (
        (cuda.cudaOccupancyMaxActiveBlocksPerMultiprocessor,),
        (cuda.cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 0),
        (cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor,))}
    return list(found)
config = create_string_buffer(64)
clusters = [told(call, function, config) for call in (
    cuda.cudaOccupancyMaxActiveClusters, cuda.cuOccupancyMaxActiveClusters)]
settings = [cuda.cudaFuncSetAttribute(function, 8, kib * 1024) for kib in (163, 164)]
settings += [cuda.cudaGetLastError(), cuda.cudaFuncSetCacheConfig(function, 1)]
answer([blocks(*of) for of in ((1024, 0), (32, 0), (100, 40), (0, 0))], clusters, settings)
"""
    assert under(PRELUDE + script) == ([[2], [32], [4], [0]], [0, 0], [0, 1, 1, 0])


def test_configurations_of_a_launch_are_popped_in_reverse(under):
    script = """
push, pop = cuda.__cudaPushCallConfiguration, cuda.__cudaPopCallConfiguration
push.argtypes = [Dim3, Dim3, c_size_t, c_void_p]
def popped():
    grid, block, shared, stream = Dim3(), Dim3(), c_size_t(), c_void_p()
    code = pop(byref(grid), byref(block), byref(shared), byref(stream))
    return code, grid.x, block.z, shared.value, stream.value
empty = [popped()[0], cuda.cudaGetLastError()]
pushed = [push(Dim3(i, 1, 1), Dim3(1, 1, i), i, i + 1) for i in range(17)]
first = popped()
kernel, here = c_void_p(), c_void_p(64)
cuda.__cudaGetKernel(byref(kernel), here)
answer(empty, pushed, first, [popped()[1] for _ in range(15)], popped()[0],
       [kernel.value, cuda.__cudaInitModule(None) % 256])
"""
    assert under(PRELUDE + script) == (
        [52, 52],
        [0] * 16 + [1],
        [0, 15, 15, 15, 16],
        list(range(14, -1, -1)),
        52,
        [64, 1],
    )


def test_a_tensor_map_that_no_device_takes_is_refused(under):
    script = """
u64, u32 = ctypes.c_uint64 * 6, c_uint * 6
def encode(rank=2, address=4096, dim=128, box=64):
    tensor_map = create_string_buffer(bytes([7]) * 128, 128)
    code = cuda.cuTensorMapEncodeTiled(
        tensor_map, 6, rank, c_void_p(address), u64(*[dim] * 6), u64(*[256] * 6),
        u32(*[box] * 6), u32(*[1] * 6), 0, 0, 0, 0)
    return code, tensor_map.raw == bytes(128)
answer(encode(), encode(rank=5), encode(rank=0), encode(rank=6), encode(address=4104),
       encode(dim=0), encode(box=0), encode(box=257))
"""
    assert under(PRELUDE + script) == ([0, True], [0, True], *[[1, False]] * 6)


def test_functions_are_found_by_name(under):
    script = """
def found(call, name, *more):
    p, result = c_void_p(), c_int(-9)
    code = call(name, byref(p), *more, byref(result))
    return code, result.value, p.value
flags = ctypes.c_ulonglong(0)
runtime = [(cuda.cudaGetDriverEntryPoint, flags)]
if hasattr(cuda, "cudaGetDriverEntryPointByVersion"):
    runtime += [(cuda.cudaGetDriverEntryPointByVersion, 12000, flags)]
driver = (cuda.cuGetProcAddress_v2, 12000, flags)
newest = ctypes.cast(cuda.cuMemcpyDtoH_v2, c_void_p).value
known = [found(call, b"cuMemcpyDtoH", *more) for call, *more in (driver, *runtime)]
missing = [found(call, b"cuNoSuchCall", *more) for call, *more in (driver, *runtime)]
stub = found(driver[0], b"cuModuleGetGlobal", *driver[1:])[:2]
table = c_void_p(7)
refused = cuda.cuGetExportTable(byref(table), None), table.value
answer(known == [(0, 0, newest)] * len(known), missing[0], {*missing[1:]} == {(0, 1, None)}, stub,
       refused, counts.unknown_calls())
"""
    assert under(PRELUDE + script) == (
        *(True, [500, 1, None], True, [0, 0], [801, None]),
        {"cuGetExportTable": 1},
    )


def test_errors_have_the_names_of_the_driver_and_the_texts_of_the_runtime(under):
    """The runtime of torch has the same texts for the same numbers."""
    script = """
import torch
def text(call, error):
    p = c_char_p(b"kept")
    return call(error, byref(p)), p.value and p.value.decode()
of_runtime = cuda.cudaGetErrorString
of_runtime.restype = c_char_p
errors = (0, 1, 2, 100, 101, 201, 215, 301, 400, 500, 801)
same = [text(cuda.cuGetErrorString, e) == (0, of_runtime(e).decode()) for e in errors]
answer([text(cuda.cuGetErrorName, e) for e in errors], same,
       [text(call, 12345) for call in (cuda.cuGetErrorName, cuda.cuGetErrorString)])
"""
    names = (
        *("INVALID_VALUE", "OUT_OF_MEMORY", "NO_DEVICE", "INVALID_DEVICE", "INVALID_CONTEXT"),
        *("UNSUPPORTED_LIMIT", "FILE_NOT_FOUND", "INVALID_HANDLE", "NOT_FOUND", "NOT_SUPPORTED"),
    )
    assert under(PRELUDE + script) == (
        [[0, "CUDA_SUCCESS"], *([0, f"CUDA_ERROR_{name}"] for name in names)],
        [True] * 11,
        [[1, None]] * 2,
    )
