"""Sizes of blocks and segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.allocator import AllocatorSettings, parse_settings

MIB = 2**20
SIZES = st.integers(1, 2**40)


@pytest.mark.parametrize(
    ("nbytes", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 511, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
        (700 * MIB, 700 * MIB, 700 * MIB),
    ],
)
def test_the_sizes_of_the_default(nbytes, block, segment):
    settings = AllocatorSettings()
    assert settings.block_size(nbytes) == block
    assert settings.segment_size(block) == segment


@pytest.mark.parametrize(
    ("text", "nbytes", "block"),
    [
        ("4", 1200, 1536),  # within 512 B times four divisions: default rounding
        ("4", 2049, 2560),  # between 2048 and 4096, in steps of 512
        ("4", 4096, 4096),
        ("4", 4097, 5120),
        ("1", 5000, 5120),
        ("[1:2,2:4,>:1]", 3 * MIB + 1, 3 * MIB + MIB // 2),
        ("[1:2,2:4,>:1]", 1200 * 1024, 1536 * 1024),
        ("[1:2,2:4,>:1]", 4 * MIB + 1, 4 * MIB + 512),
        ("[65536:2]", (1 << 37) + 1, 3 << 36),  # beyond the last interval
        ("[2:8,>:0]", 700 * 1024, 704 * 1024),  # below the first
    ],
)
def test_divisions_of_powers_of_two(text, nbytes, block):
    assert parse_settings(f"roundup_power2_divisions:{text}").block_size(nbytes) == block


@given(SIZES)
def test_a_block_is_the_least_multiple_of_512(nbytes):
    block = AllocatorSettings().block_size(nbytes)
    assert block % 512 == 0
    assert 0 <= block - nbytes < 512


@given(SIZES, st.sampled_from([2, 4, 8, 64]))
def test_divisions_waste_at_most_one_step(nbytes, divisions):
    block = parse_settings(f"roundup_power2_divisions:{divisions}").block_size(nbytes)
    assert block % 512 == 0
    floor = 1 << nbytes.bit_length() - 1
    assert 0 <= block - nbytes < max(512, floor // divisions)


def test_a_segment_can_be_as_large_as_is_said():
    settings = parse_settings("large_segment_size_mb:64")
    assert settings.segment_size(MIB + 512) == 64 * MIB
    assert settings.segment_size(10 * MIB) == 10 * MIB
