"""Device memory through the C interface alone: addresses, accounts and pointers."""

PRELUDE = """
import ctypes, random
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL(None)
def malloc(size):
    p = c_void_p()
    return (cuda.cudaMalloc(byref(p), c_size_t(size)), p.value)
def free(p):
    return cuda.cudaFree(c_void_p(p))
class Properties(ctypes.Structure):  # CUmemAllocationProp, as far as it matters here
    _fields_ = [("type", c_int), ("handles", c_int), ("location", c_int), ("id", c_int),
                ("rest", ctypes.c_char * 64)]
def create(size, device=0):
    handle = c_uint64()
    code = cuda.cuMemCreate(byref(handle), c_size_t(size), byref(Properties(1, 0, 1, device)),
                            c_uint64(0))
    return code, handle.value
def reserve(size):
    p = c_uint64()
    code = cuda.cuMemAddressReserve(byref(p), c_size_t(size), c_size_t(0), c_uint64(0),
                                    c_uint64(0))
    return code, p.value
def map(p, size, handle):
    return cuda.cuMemMap(c_uint64(p), c_size_t(size), c_size_t(0), c_uint64(handle), c_uint64(0))
def unmap(p, size):
    return cuda.cuMemUnmap(c_uint64(p), c_size_t(size))
def release(handle):
    return cuda.cuMemRelease(c_uint64(handle))
def device_of(p):
    device = c_int(-9)
    code = cuda.cuPointerGetAttribute(byref(device), 9, c_uint64(p))
    return device.value if code == 0 else None
PAGE = 2 * MIB
"""


def test_blocks_never_overlap_and_take_the_lowest_gap(under):
    script = """
rng, live = random.Random(0), {}
code, base = malloc(PAGE); free(base)
for _ in range(5000):
    if live and rng.random() < 0.48:
        at = rng.choice(list(live)); del live[at]
        assert free(at) == 0
        continue
    size = rng.randrange(1, 64) * PAGE - rng.randrange(PAGE)
    pages = -(-size // PAGE)
    gap = base
    for at in sorted(live):
        if at - gap >= pages * PAGE:
            break
        gap = at + live[at] * PAGE
    code, at = malloc(size)
    assert (code, at) == (0, gap), (code, at, gap)
    live[at] = pages
    assert counts.device_memory()[0] == sum(live.values()) * PAGE
answer(len(live) > 100)
"""
    assert under(PRELUDE + script) == (True,)


def test_what_was_not_allocated_cannot_be_freed(under):
    script = """
code, p = malloc(3 * PAGE)
answer(free(p + PAGE), free(12345), free(p), free(p), free(None), malloc(0), malloc(1 << 60))
"""
    invalid = 1
    expected = (invalid, invalid, 0, invalid, 0, [0, None], [2, None])
    assert under(PRELUDE + script) == expected


def test_memory_counts_until_it_is_released_and_mapped_nowhere(under):
    script = """
levels = []
def level(): levels.append(counts.device_memory()[0] // PAGE)
(_, p), (_, a), (_, b) = reserve(8 * PAGE), create(PAGE), create(2 * PAGE)
level()
codes = [map(p, PAGE, a), map(p + PAGE, 2 * PAGE, b)]
release(a); level()
codes += [unmap(p, PAGE)]; level()
codes += [release(b), unmap(p, 8 * PAGE)]; level()
answer(codes, levels)
"""
    assert under(PRELUDE + script) == ([0] * 5, [3, 3, 2, 0])


def test_a_mapping_that_cannot_be_is_refused(under):
    script = """
(_, p), (_, a), (_, b) = reserve(4 * PAGE), create(2 * PAGE), create(2 * PAGE)
codes = [map(p, 2 * PAGE, a), map(p + PAGE, 2 * PAGE, b), map(p, 2 * PAGE, b)]
codes += [map(p + 3 * PAGE, 2 * PAGE, b), map(p + 2 * PAGE, PAGE, b), map(p, PAGE, 77)]
codes += [unmap(p + 2 * PAGE, PAGE), release(77), reserve(5)[0], create(5)[0], create(PAGE, 9)[0]]
codes += [map(p + 2 * PAGE, 2 * PAGE, b), create(1 << 40)[0]]
answer(codes)
"""
    assert under(PRELUDE + script) == ([0, *[1] * 9, 101, 0, 2],)


def test_a_pointer_knows_its_device(under):
    script = """
cuda.cudaSetDevice(1)
_, p = malloc(PAGE)
_, q = reserve(4 * PAGE)
for i in range(2):
    map(q + i * PAGE, PAGE, create(PAGE, i)[1])
host = ctypes.create_string_buffer(8)
pinned = c_void_p()
cuda.cudaHostAlloc(byref(pinned), c_size_t(8), 0)
answer([device_of(x) for x in (p, p + PAGE - 1, q, q + PAGE, q + 2 * PAGE, 0,
        ctypes.addressof(host), pinned.value)])
"""
    assert under(PRELUDE + script, devices=2) == ([1, 1, 0, 1, None, None, None, None],)


def test_host_memory_is_pinned_once(under):
    script = """
buffer = ctypes.create_string_buffer(4096)
p, n = c_void_p(ctypes.addressof(buffer)), c_size_t(4096)
answer([cuda.cudaHostRegister(p, n, 0), cuda.cudaHostRegister(p, n, 0), cuda.cudaFreeHost(p),
        cuda.cudaHostUnregister(p), cuda.cudaHostUnregister(p)])
"""
    assert under(PRELUDE + script) == ([0, 712, 1, 0, 713],)


def test_managed_memory_is_the_hosts_too(under):
    script = """
p = c_void_p()
code = cuda.cudaMallocManaged(byref(p), c_size_t(PAGE), 1)
ctypes.memset(p, 7, PAGE)
source, away = ctypes.create_string_buffer(b"abc", 3), ctypes.create_string_buffer(3)
cuda.cudaMemcpy(p, source, c_size_t(3), 4)
cuda.cudaMemcpy(away, p, c_size_t(3), 4)
level = counts.device_memory()[0]
free(p.value)
_, again = malloc(PAGE)
cuda.cudaMemcpy(away, c_void_p(again), c_size_t(2), 4)
answer(code, away.raw.decode("latin1"), level, again == p.value)
"""
    assert under(PRELUDE + script) == (0, "\0\0c", 2 * 2**20, True)
