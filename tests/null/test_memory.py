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
    assert device_memory()[0] == sum(live.values()) * PAGE
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
def level(): levels.append(device_memory()[0] // PAGE)
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
def at(offset):
    return c_void_p(ctypes.addressof(buffer) + offset)
def register(offset, size):
    return cuda.cudaHostRegister(at(offset), c_size_t(size), 0)
codes = [register(1024, 1024), cuda.cudaFreeHost(at(1024))]
overlapping = [register(*of) for of in ((1024, 1024), (0, 1025), (2047, 9), (0, 4096), (1100, 9))]
codes += [register(0, 1024), register(2048, 1024), cuda.cudaHostUnregister(at(1025))]
codes += [cuda.cudaHostUnregister(at(1024)) for _ in range(2)]
answer(codes, overlapping)
"""
    assert under(PRELUDE + script) == ([0, 1, 0, 0, 713, 0, 713], [712] * 5)


def test_managed_memory_is_the_hosts_too(under):
    script = """
p = c_void_p()
code = cuda.cudaMallocManaged(byref(p), c_size_t(PAGE), 1)
ctypes.memset(p, 7, PAGE)
source, away = ctypes.create_string_buffer(b"abc", 3), ctypes.create_string_buffer(3)
cuda.cudaMemcpy(p, source, c_size_t(3), 4)
cuda.cudaMemcpy(away, p, c_size_t(3), 4)
level = device_memory()[0]
free(p.value)
_, again = malloc(PAGE)
cuda.cudaMemcpy(away, c_void_p(again), c_size_t(2), 4)
answer(code, away.raw.decode("latin1"), level, again == p.value)
"""
    assert under(PRELUDE + script) == (0, "\xff\xffc", 2 * 2**20, True)


def test_access_is_given_to_whole_mappings_of_devices_that_exist(under):
    script = """
class Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [("location", c_int), ("id", c_int), ("flags", c_int)]
def access(p, size, id=0, count=1):
    given = byref(Access(1, id, 3)), c_size_t(count)
    return cuda.cuMemSetAccess(c_uint64(p), c_size_t(size), *given)
(_, p), (_, a), (_, b) = reserve(8 * PAGE), create(PAGE), create(2 * PAGE)
codes = [access(p, PAGE), map(p, PAGE, a), access(p, PAGE), access(p, 3 * PAGE)]
codes += [map(p + PAGE, 2 * PAGE, b), access(p, 3 * PAGE), access(p, 2 * PAGE), access(p, 0)]
codes += [access(p, PAGE, id=1), access(p, PAGE, count=0)]
codes += [cuda.cuMemSetAccess(c_uint64(p), c_size_t(PAGE), None, c_size_t(1))]
answer(codes)
"""
    assert under(PRELUDE + script) == ([1, 0, 0, 1, 0, 0, 1, 1, 101, 1, 1],)


def test_a_mapping_keeps_its_memory_and_tells_what_it_is(under):
    script = """
granularity, size, base, handle = c_size_t(), c_size_t(), c_uint64(), c_uint64()
def unit(id):
    return cuda.cuMemGetAllocationGranularity(byref(granularity), byref(Properties(1, 0, 1, id)), 0)
found = [unit(0), granularity.value == PAGE, unit(1)]
(_, p), (_, a) = reserve(4 * PAGE), create(2 * PAGE)
map(p + PAGE, 2 * PAGE, a)
release(a)
found += [cuda.cuMemRetainAllocationHandle(byref(handle), c_void_p(at))
          for at in (p, p + PAGE + 5, p + 3 * PAGE)] + [handle.value == a]
unmap(p, 4 * PAGE)
properties = Properties()
found += [device_memory()[0] // PAGE]
found += [cuda.cuMemGetAllocationPropertiesFromHandle(byref(properties), c_uint64(h))
          for h in (a, a + 1)] + [properties.type, properties.location, properties.id]
found += [release(a), release(a), device_memory()[0]]
def range_of(at):
    code = cuda.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(at))
    return [base.value, size.value] if code == 0 else code
_, block = malloc(3 * PAGE)
found += [range_of(block + 2 * PAGE) == [block, 3 * PAGE], range_of(p + 9) == [p, 4 * PAGE]]
found += [range_of(12345), cuda.cuMemGetAddressRange_v2(None, None, c_uint64(block))]
found += [cuda.cuMemAddressFree(c_uint64(at), c_size_t(n * PAGE))
          for at, n in ((p, 3), (p + PAGE, 3), (block, 3), (p, 4), (p, 4))]
answer(found, free(block), device_memory()[0])
"""
    retained = [1, 0, 1, True]
    handle = [2, 0, 1, 1, 1, 0, 0, 1, 0]
    assert under(PRELUDE + script) == (
        [0, True, 101, *retained, *handle, True, True, 1, 0, 1, 1, 1, 0, 1],
        *(0, 0),
    )


def test_pointers_and_pinned_memory_have_the_attributes_that_cuda_documents(under):
    script = """
class Attributes(ctypes.Structure):  # cudaPointerAttributes
    _fields_ = [("type", c_int), ("device", c_int), ("on_device", c_void_p), ("on_host", c_void_p),
                ("rest", ctypes.c_char * 64)]
cuda.cudaSetDevice(1)
def pointer(call, *more):
    p = c_void_p()
    assert call(byref(p), c_size_t(PAGE), *more) == 0
    return p.value
def described(p):
    a = Attributes()
    code = cuda.cudaPointerGetAttributes(byref(a), c_void_p(p))
    return [code, a.type, a.device, a.on_device == p, a.on_host == p]
pageable = ctypes.create_string_buffer(PAGE)
at = ctypes.addressof(pageable)
kinds = [pointer(cuda.cudaMalloc), pointer(cuda.cudaMallocManaged, 1), pointer(cuda.cudaMallocHost)]
rows = [described(p + 4) for p in kinds] + [described(at)]
def view(host):
    p = c_void_p()
    code = cuda.cudaHostGetDevicePointer(byref(p), c_void_p(host), 0)
    return code or p.value == host
views = [view(kinds[2]), view(at), cuda.cudaHostRegister(c_void_p(at), c_size_t(PAGE), 0), view(at)]
views += [cuda.cudaHostRegister(c_void_p(p), c_size_t(n), 0) for p, n in ((None, 8), (at, 0))]
views += [cuda.cudaGetLastError(), cuda.cudaFreeHost(None), cuda.cudaFreeHost(c_void_p(kinds[2]))]
p = c_void_p(7)
nothing = [cuda.cudaHostAlloc(byref(p), c_size_t(0), 0), p.value]
nothing += [cuda.cudaMallocManaged(byref(p), c_size_t(n), 1) for n in (0, 1 << 60)]
nothing += [cuda.cudaHostAlloc(byref(p), c_size_t(1 << 60), 0), cuda.cudaGetLastError()]
def told(attribute, pointer, kind=c_uint64):
    value = kind(99)
    code = cuda.cuPointerGetAttribute(byref(value), attribute, c_uint64(pointer))
    return value.value if code == 0 else f"error {code}"
CONTEXT, MEMORY, DEVICE, HOST, ORDINAL = 1, 2, 3, 4, 9
context = c_uint64()
cuda.cuCtxGetCurrent(byref(context))
driver = [told(CONTEXT, kinds[0]) == context.value, told(MEMORY, kinds[0], c_int)]
driver += [told(DEVICE, kinds[0] + 4) == kinds[0] + 4, told(ORDINAL, kinds[0], c_int)]
driver += [counts.unknown_calls(), told(HOST, kinds[0]), counts.unknown_calls()]
a, b = c_size_t(), c_size_t()
levels = [cuda.cuMemGetInfo_v2(byref(a), byref(b)), (b.value - a.value) // PAGE]
answer(rows, views, nothing, driver, levels)
"""
    unregistered, host, device, managed = range(4)
    assert under(PRELUDE + script, devices=2) == (
        [
            *([0, device, 1, True, False], [0, managed, 1, True, True]),
            *([0, host, 1, True, True], [0, unregistered, -2, False, False]),
        ],
        [True, 1, 0, True, 1, 1, 1, 0, 0],
        [0, None, 1, 2, 2, 2],
        [True, 2, True, 1, {}, "error 801", {"cuPointerGetAttribute": 1}],
        [0, 2],
    )


def test_a_process_may_have_less_address_space_than_the_device_has_memory(under):
    script = """
import resource
limit = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as pages:
    now = int(pages.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 32 * GIB, limit[1]))
(code, first), (refused, _) = malloc(GIB), malloc(70 * GIB)
levels = [device_memory()[0]]
resource.setrlimit(resource.RLIMIT_AS, limit)
again, _ = malloc(70 * GIB)
answer(code, refused, levels, again, device_memory()[0] // GIB)
"""
    assert under(PRELUDE + script) == (0, 2, [2**30], 0, 71)
