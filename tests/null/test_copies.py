"""Copies and fills through the C interface: what the host reads, and what is refused."""

PRELUDE = """
import ctypes
from ctypes import byref, c_size_t as size, c_void_p, string_at
cuda = ctypes.CDLL(None)
cuda.attnmem_null_uploaded.argtypes = [c_void_p, c_void_p, size]
INVALID = 1
def memory(call, count, *flags):
    p = c_void_p()
    assert call(byref(p), size(count), *flags) == 0
    return p
def host(text):
    p = memory(cuda.cudaMallocHost, 2 * MIB)
    ctypes.memmove(p, text, len(text))
    return p
device, other = (memory(cuda.cudaMalloc, 2 * MIB) for _ in range(2))
COPIES = {
    "cudaMemcpy": lambda to, at, n: cuda.cudaMemcpy(to, at, n, 4),
    "cudaMemcpyAsync": lambda to, at, n: cuda.cudaMemcpyAsync(to, at, n, 4, None),
    "cudaMemcpyPeer": lambda to, at, n: cuda.cudaMemcpyPeer(to, 0, at, 0, n),
    "cudaMemcpyPeerAsync": lambda to, at, n: cuda.cudaMemcpyPeerAsync(to, 0, at, 0, n, None),
    "cudaMemcpy2D": lambda to, at, n: cuda.cudaMemcpy2D(to, n, at, n, n, size(1), 4),
    "cudaMemcpy2DAsync": lambda to, at, n: cuda.cudaMemcpy2DAsync(
        to, n, at, n, n, size(1), 4, None),
}
for way in ("DtoH", "HtoD", "DtoD"):
    COPIES[f"cuMemcpy{way}"] = getattr(cuda, f"cuMemcpy{way}_v2")
    COPIES[f"cuMemcpy{way}Async"] = (
        lambda to, at, n, call=getattr(cuda, f"cuMemcpy{way}Async_v2"): call(to, at, n, None))
"""


def test_every_copy_moves_what_the_host_has_and_reads_nan_from_the_device(under):
    script = """
wrong = []
for name, call in COPIES.items():
    a, b, kept = host(b"abcd"), host(b"wxyz"), ctypes.create_string_buffer(3)
    before = counts.device_reads()
    codes = [call(b, a, size(3)), call(device, a, size(3))]
    told = cuda.attnmem_null_uploaded(device, kept, 3), kept.raw
    codes += [call(other, device, size(3)), call(a, other, size(3))]
    found = string_at(b, 4), told, string_at(a, 4), counts.device_reads() - before
    if codes != [0] * 4 or found != (b"abcz", (1, b"abc"), bytes([255] * 3) + b"d", 1):
        wrong.append([name, codes, repr(found)])
    for pointers in ((None, a), (a, None), (device, None)):
        if call(*pointers, size(3)) != INVALID or call(*pointers, size(0)):
            wrong.append([name, "took a null pointer"])
answer(len(COPIES), wrong)
"""
    assert under(PRELUDE + script) == (12, [])


def test_rows_are_copied_by_their_pitch_and_a_wrong_argument_is_named(under):
    script = """
a, b, one = host(b"abcdefgh"), host(b"ABCDEFGH"), size(1)
def rows(pitch, source, width, call=cuda.cudaMemcpy2D, kind=4):
    return call(b, size(pitch), a, size(source), size(width), size(2), kind)
codes = [rows(4, 3, 2), rows(1, 3, 2), rows(4, 1, 2), rows(4, 4, 2, kind=5)]
moved = string_at(b, 8).decode()
codes += [cuda.cudaGetLastError(), cuda.cudaMemcpyPeer(b, 0, a, 1, one)]
codes += [cuda.cudaMemcpyPeer(b, -1, a, 0, one), cuda.cudaMemcpy(b, a, one, -1)]
codes += [cuda.cudaPeekAtLastError(), cuda.cudaGetLastError(), cuda.cudaGetLastError()]
codes += [cuda.cuMemcpyDtoH_v2(None, a, one), cuda.cudaGetLastError()]
codes += [cuda.cudaMemcpyToSymbol(a, b, one, size(0), 1), cuda.cudaGetLastError()]
answer(codes, moved)
"""
    pitch, direction, device = 12, 21, 101
    assert under(PRELUDE + script) == (
        [
            *(0, pitch, pitch, direction),
            *(direction, device, device, direction, direction, direction, 0),
            *(1, 0),  # the driver leaves the runtime's last error alone
            *(0, 0),
        ],
        "abCDdeGH",
    )


def test_fills_reach_managed_and_pinned_memory_alone(under):
    script = """
managed = memory(cuda.cudaMallocManaged, 2 * MIB, 1)
pageable = ctypes.create_string_buffer(b"wxyz", 8)
fills = {
    "cudaMemset": lambda at, n: cuda.cudaMemset(at, 0x161, size(4 * n)),
    "cudaMemsetAsync": lambda at, n: cuda.cudaMemsetAsync(at, 0x61, size(4 * n), None),
    "cuMemsetD8": lambda at, n: cuda.cuMemsetD8_v2(at, 0x61, size(4 * n)),
    "cuMemsetD8Async": lambda at, n: cuda.cuMemsetD8Async(at, 0x61, size(4 * n), None),
    "cuMemsetD32": lambda at, n: cuda.cuMemsetD32_v2(at, 0x61616161, size(n)),
    "cuMemsetD32Async": lambda at, n: cuda.cuMemsetD32Async(at, 0x61616161, size(n), None),
}
wrong = []
for name, fill in fills.items():
    reached = [host(b"wxyzwxyz!"), managed]
    ctypes.memmove(managed, b"wxyzwxyz!", 9)
    codes = [fill(at, 2) for at in (*reached, device, pageable, None)]
    codes += [fill(at, 0) for at in (device, pageable, None)]
    found = [string_at(at, 9) for at in reached] + [pageable.raw[:4]]
    if codes != [0, 0, 0, 1, 1, 0, 0, 0] or found != [b"a" * 8 + b"!"] * 2 + [b"wxyz"]:
        wrong.append([name, codes, repr(found)])
uneven = [cuda.cuMemsetD32_v2(c_void_p(at.value + 1), 0, size(1)) for at in (device, managed)]
answer(wrong, uneven, counts.device_reads())
"""
    assert under(PRELUDE + script) == ([], [1, 1], 0)


def test_a_large_upload_is_not_kept_and_announced_bytes_are_read_once(under):
    script = """
large = memory(cuda.cudaMalloc, 65 * MIB)
source, kept = memory(cuda.cudaMallocHost, 65 * MIB), ctypes.create_string_buffer(8)
codes = [cuda.cudaMemcpy(large, source, size(65 * MIB), 1)]
codes += [cuda.attnmem_null_uploaded(large, kept, 65 * MIB)]
codes += [cuda.cudaMemcpy(large, source, size(4), 1), cuda.attnmem_null_uploaded(large, kept, 8)]
announced = ctypes.create_string_buffer(b"abcdef", 6)
expect = cuda.attnmem_null_expect
expect.restype = size
left = [expect(announced, size(6))]
away, before = host(b"......"), counts.device_reads()
codes += [cuda.cudaMemcpy(c_void_p(away.value + i), device, size(2), 2) for i in (0, 2)]
first = string_at(away, 4).decode()
left += [expect(None, size(4))]
codes += [cuda.cudaMemcpy(away, device, size(4), 2)]
zeros, unread = string_at(away, 4), counts.device_reads() - before
codes += [cuda.cudaMemcpy(away, device, size(4), 2)]
answer(codes, left, first, zeros == bytes(4), unread, counts.device_reads() - before)
"""
    assert under(PRELUDE + script) == ([0] * 8, [0, 2], "abcd", True, 0, 1)
