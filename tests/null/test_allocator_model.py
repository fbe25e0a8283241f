"""The model of the allocator against PyTorch's own, to the byte, after each of random events."""

import json

import pytest

from pytest_attnmem.allocator import AllocatorSettingsError, parse_settings, settings_from

COMPARE = """
import allocator_on_device
answer(*[
    allocator_on_device.compare({settings!r}, {capacity}, seed, {steps}, tidy)
    for seed, tidy in ((1, True), (2, False))
])
"""
CAPACITY = 1 << 30
SETTINGS = [
    *("", "max_split_size_mb:128", "max_split_size_mb:64,max_non_split_rounding_mb:40"),
    *("roundup_power2_divisions:4", "roundup_power2_divisions:[1:4,64:2,>:8]"),
    *("large_segment_size_mb:21", "expandable_segments:True"),
    "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:100",
    "per_process_memory_fraction:0.9,garbage_collection_threshold:0.6",
    *("expandable_segments:True,per_process_memory_fraction:0.7", "throw_on_cudamalloc_oom:True"),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_no_statistic_ever_differs(under, settings):
    runs = under(
        COMPARE.format(settings=settings, capacity=CAPACITY, steps=2500),
        ATTNMEM_NULL_MEMORY=str(CAPACITY),
        PYTORCH_CUDA_ALLOC_CONF=settings,
    )
    for difference, end in runs:
        assert difference is None
        assert end["alloc_retries"] + end["oom_rejections"] > 0  # it was full now and then
        assert end["ooms"] + end["oom_rejections"] > 0


ACCEPTED = [
    *("", " ", "max_split_size_mb:20", "max_split_size_mb:40,", "max_split_size_mb:040"),
    *("max_split_size_mb:17592186044416", "expandable_segments : False , max_split_size_mb : 40"),
    *("max_split_size_mb:40,max_split_size_mb:50", "large_segment_size_mb:11"),
    "max_split_size_mb:21,large_segment_size_mb:21",
    *("max_non_split_rounding_mb:20,large_segment_size_mb:20", "garbage_collection_threshold:0.8"),
    *("garbage_collection_threshold:1e-3", "per_process_memory_fraction:0"),
    *("per_process_memory_fraction:1", "roundup_power2_divisions:1", "roundup_power2_divisions:4"),
    *("roundup_power2_divisions:64", "roundup_power2_divisions:[]"),
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    *("roundup_power2_divisions:[512:4,256:2]", "roundup_power2_divisions:[>:4,256:2]"),
    *("roundup_power2_divisions:[>:4]", "roundup_power2_divisions:[1:8,2:0,64:16,>:2,]"),
    "roundup_power2_divisions:[131072:2,>:4]",
    *("roundup_power2_divisions:2,roundup_power2_divisions:[4:8]", "backend:native"),
    *("throw_on_cudamalloc_oom:False", "release_lock_on_cudamalloc:True"),
    *("graph_capture_record_stream_reuse:True", "pinned_num_register_threads:8"),
    "pinned_max_cached_size_mb:0",
]
REFUSED = [
    *(",", ":", "max_split_size_mb", "max_split_size_mb:", "max_split_size_mb:19"),
    *("max_split_size_mb=40", "max_split_size_mb:abc", "max_split_size_mb:99999999999999999999"),
    "max_split_size_mb:20,large_segment_size_mb:21",
    "max_split_size_mb:40,,expandable_segments:False",
    *("max_split_size_mb:40 expandable_segments:False", "max_non_split_rounding_mb:19"),
    *("large_segment_size_mb:10", "expandable_segments:true", "expandable_segments:[True]"),
    *("garbage_collection_threshold:0", "garbage_collection_threshold:1"),
    *("garbage_collection_threshold:nan", "per_process_memory_fraction:1.5"),
    *("roundup_power2_divisions:0", "roundup_power2_divisions:3", "roundup_power2_divisions:256:4"),
    *("roundup_power2_divisions:[256:3]", "roundup_power2_divisions:[255:4]"),
    *("roundup_power2_divisions:[0:1]", "roundup_power2_divisions:[4:2,,8:4]"),
    *("roundup_power2_divisions:[256:1,>:8", "backend:foo", "pinned_num_register_threads:256"),
    *("pinned_reserve_segment_size_mb:0", "expandable_segments_reserve:0.5"),
    "MAX_SPLIT_SIZE_MB:40",
]
#: PyTorch accepts it from 2.15 on; the model refuses a setting whose rule it does not have.
SINCE_2_15 = "expandable_segments_reserve:0.5"
#: PyTorch parses only a part of these, so their meaning differs from their text.
STRICTER = ["max_split_size_mb:40MB", "max_split_size_mb:-1", "garbage_collection_threshold:.8x"]

READ = """
import torch
torch.empty(1, device="cuda")
def block(size):
    before = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    address = torch.cuda.caching_allocator_alloc(size)
    after = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    torch.cuda.caching_allocator_delete(address)
    torch.cuda.empty_cache()
    return after - before
def read(text):
    try:
        torch._C._accelerator_setAllocatorSettings(text)
    except (ValueError, IndexError, RuntimeError):
        return None
    blocks = [block(size) for size in sizes] if "roundup" in text else []
    torch._C._accelerator_setAllocatorSettings("large_segment_size_mb:20")
    return blocks
"""
SIZES = [
    (1 << power) + part
    for power in range(9, 34)
    for part in (0, 1, (1 << power) // 16 + 1, (1 << power) // 3, (1 << power) - 1)
]


def test_settings_are_read_alike(under):
    texts = ACCEPTED + REFUSED + STRICTER
    script = f"{READ}sizes = {SIZES}\nanswer(*[read(text) for text in {texts}])"
    for text, blocks in zip(texts, under(script), strict=True):
        if text != SINCE_2_15:
            assert (blocks is None) == (text in REFUSED), text
        if text not in ACCEPTED:
            with pytest.raises(AllocatorSettingsError):
                parse_settings(text)
            continue
        settings = parse_settings(text)
        if blocks:
            assert blocks == [whole(settings, size) for size in SIZES], text


def whole(settings, size):
    """Returns the block allocated in an empty cache: up to 1 MiB of rest stays with the block."""
    block = settings.block_size(size)
    segment = settings.segment_size(block)
    return segment if block > 1 << 20 and segment - block <= 1 << 20 else block


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"PYTORCH_ALLOC_CONF": "large_segment_size_mb:40"},
        {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": "large_segment_size_mb:40"},
        {
            "PYTORCH_CUDA_ALLOC_CONF": "large_segment_size_mb:30",
            "PYTORCH_ALLOC_CONF": "large_segment_size_mb:40",
        },
        {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_HIP_ALLOC_CONF": "large_segment_size_mb:40"},
    ],
    ids=json.dumps,
)
def test_the_same_variable_is_read(under, variables):
    script = "import torch; torch.empty(3 * MIB, device='cuda', dtype=torch.uint8)\n"
    (reserved,) = under(script + "answer(torch.cuda.memory_reserved())", **variables)
    assert reserved == settings_from(variables).large_segment_size
