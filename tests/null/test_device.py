"""The devices of the null runtime, as a program sees them."""

import pytest

UUID = "GPU-00000000-0000-0000-0000-00000000000"


def test_a_device_is_its_profile(under):
    script = """
import torch
p = torch.cuda.get_device_properties(0)
answer(p.name, p.major, p.minor, p.multi_processor_count, p.total_memory, p.L2_cache_size,
       p.shared_memory_per_block_optin, p.max_threads_per_multi_processor, p.warp_size)
"""
    assert under(script, "RTX 3090") == (
        "NVIDIA RTX 3090 (attnmem null device)",
        *(8, 6, 82, 25_447_170_048, 6 * 2**20, 99 * 1024, 1536, 32),
    )


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        *((None, 4), ("0,1", 2), ("", 0), ("2,9,1", 1), ("-1", 0), ("x", 0), ("3,1,3", 0)),
        *((" 1x,2", 2), (f"{UUID}2,{UUID}4", 2), (f"{UUID}9,{UUID}1", 0), (UUID, 0)),
    ],
)
def test_visible_devices_are_counted(under, wanted, count):
    over = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    script = "import torch; answer(torch._C._cuda_getDeviceCount(), torch.cuda.device_count())"
    assert under(script, devices=4, **over) == (count, count)


def test_a_device_is_seen_by_the_uuid_that_it_reports(under):
    script = """
import torch
first, second = (torch.cuda.get_device_properties(n) for n in range(2))
answer(torch.cuda.is_available(), str(first.uuid), first.pci_bus_id, second.pci_bus_id)
"""
    found = under(script, devices=4, CUDA_VISIBLE_DEVICES=f"{UUID}3,{UUID}1")
    assert found == (True, f"{UUID}3".removeprefix("GPU-"), 3, 1)


def test_memory_ends_at_the_capacity_after_one_retry(under):
    script = """
import torch
keep = []
try:
    while True:
        keep.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    text = str(error)
s = torch.cuda.memory_stats()
answer(len(keep), s["num_alloc_retries"], s["num_ooms"], text.split(". ")[1],
       torch.cuda.mem_get_info(), device_memory())
"""
    total = 85_031_714_816
    held = 79 * 2**30
    assert under(script) == (
        *(79, 1, 1, "Tried to allocate 1024.00 MiB"),
        [total - held, total],
        [held, held],
    )


def test_memory_given_back_can_be_taken_again(under):
    script = """
import torch
for _ in range(200):
    keep = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(60)]
    first = keep[0].data_ptr()
    del keep
    torch.cuda.empty_cache()
again = torch.empty(GIB, dtype=torch.uint8, device="cuda").data_ptr()
answer(first == again, device_memory())
"""
    assert under(script) == (True, [2**30, 60 * 2**30])


def test_expandable_segments_take_and_give_back_pages(under):
    script = """
import torch
keep = [torch.empty(30 * MIB * (i + 1), dtype=torch.uint8, device="cuda") for i in range(8)]
reserved, taken = torch.cuda.memory_reserved(), device_memory()[0]
del keep
torch.cuda.empty_cache()
after = device_memory()
try:
    torch.empty(200 * GIB, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    ctypes.CDLL(None).attnmem_null_reset_peak(0)
    answer(reserved == taken, taken == after[1], after[0], device_memory())
"""
    found = under(script, PYTORCH_ALLOC_CONF="expandable_segments:True")
    assert found[:3] == (True, True, 0)
    assert found[3][0] == found[3][1]


def test_two_devices_have_memory_of_their_own(under):
    script = """
import torch
a = torch.empty(5 * GIB, dtype=torch.uint8, device="cuda:0")
b = torch.empty(3 * GIB, dtype=torch.uint8, device="cuda:1")
c = b.to("cuda:0")
with torch.cuda.device(1):
    side = torch.cuda.Stream()
with torch.cuda.stream(side):
    d = torch.empty(GIB, dtype=torch.uint8, device="cuda:1")
    current = torch.cuda.current_device()
answer(torch.cuda.device_count(), str(c.device), current, side.device.index,
       [device_memory(i)[0] // GIB for i in range(2)])
"""
    for more in ({}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}):
        assert under(script, devices=2, **more) == (2, "cuda:0", 1, 1, [8, 4])


def test_what_nobody_computes_is_read_as_nan(under):
    """A whole number has all bits set too, which is no size: it is an error."""
    script = """
import torch
x = torch.ones(3, device="cuda")
y = torch.full((4,), 7).cuda()
pinned = torch.arange(5).pin_memory()
away = torch.empty(5, dtype=torch.long).pin_memory()
away.copy_(y.new_ones(5), non_blocking=True)
floats = (torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
nan = [bool(x.to(kind).cpu().float().isnan().all()) for kind in (torch.float32, *floats)]
try:
    torch.nonzero(x)
except RuntimeError as error:
    refused = str(error)
answer(nan, y.sum().item(), pinned.tolist(), pinned.is_pinned(), away.tolist(),
       torch.ones(3).is_pinned(), refused)
"""
    refused = "numel: integer multiplication overflow"
    assert under(script) == (*([True] * 6, -1, [0, 1, 2, 3, 4], True, [-1] * 5, False, refused),)


def test_reads_are_counted(under):
    script = """
import torch
x = torch.ones(3).cuda()
y = (x + 1).sum()
before = counts.device_reads()
x.tolist(), y.item()
between = counts.device_reads()
bool(x[0]), x.clone(), torch.ones(3).cuda()
answer(before, between, counts.device_reads())
"""
    assert under(script) == (0, 2, 3)


def test_streams_and_events_are_in_order(under):
    script = """
import torch
side = torch.cuda.Stream(priority=-1)
first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
first.record()
with torch.cuda.stream(side):
    x = torch.empty(1000, device="cuda")
    second.record()
x.record_stream(torch.cuda.default_stream())
side.synchronize()
answer(first.elapsed_time(second), second.elapsed_time(first), second.query(), side.priority)
"""
    assert under(script) == (1.0, -1.0, True, -1)


def test_threads_share_the_ledger(under):
    script = """
import ctypes, threading
cuda = ctypes.CDLL(None)
def work():
    for size in range(1, 400):
        p = ctypes.c_void_p()
        cuda.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size * 100_000))
        cuda.cudaFree(p)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
answer(device_memory()[0], cuda.cudaGetLastError(), counts.unknown_calls())
"""
    assert under(script) == (0, 0, {})


def test_sixty_four_gigabytes_of_tests_touch_no_memory(under):
    script = """
import resource, torch
torch.empty(1, device="cuda")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(64):
    x = [torch.empty(GIB // 4, dtype=torch.float32, device="cuda") for _ in range(4)]
    y = x[0] + torch.ones(MIB).cuda().sum()
    del x, y
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
answer(grown < 64 * 1024)
"""
    assert under(script) == (True,)
