"""Replays under other settings, against what the null device reserved under them."""

import pytest

from pytest_attnmem.allocator import AllocatorSettingsError
from pytest_attnmem.snapshots.snapshot import load_snapshot
from pytest_attnmem.snapshots.what_if import replay, what_if

from .recorded import event, snapshot, write

MIB = 1 << 20


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    (found,) = load_snapshot(write(tmp_path_factory.mktemp("x") / "x", snapshot("masked")))
    return found


@pytest.mark.parametrize(
    ("configuration", "reserved", "allocated"),
    [
        ("", 182, 159.3),
        ("max_split_size_mb:32", 170, 159.3),
        ("expandable_segments:True", 182, 159.3),
        ("roundup_power2_divisions:4", 182, 163.0),
    ],
)
def test_a_replay_reserves_what_pytorch_reserved(masked, configuration, reserved, allocated):
    found = replay(masked, configuration)
    assert found.reserved_bytes == reserved * MIB
    assert f"{found.allocated_bytes / MIB:.1f}" == str(allocated)


def test_the_best_comes_first_and_the_simplest_of_equals(masked):
    found = what_if(masked, ["max_split_size_mb:20"])
    assert [one.configuration for one in found[:3]] == [
        *("max_split_size_mb:32", "max_split_size_mb:20", "")
    ]
    assert not any("garbage" in one.configuration for one in found)


def test_memory_may_run_out(masked):
    found = what_if(masked, capacity=175 * MIB)
    assert found[0].configuration == "max_split_size_mb:32"
    assert any(one.configuration == "garbage_collection_threshold:0.8" for one in found)
    full = replay(masked, "", 150 * MIB)
    assert full.out_of_memory.startswith("out of memory: 32.0 MiB asked for, ")


def test_the_cache_is_emptied_where_the_program_did(tmp_path):
    events = [
        *(event("alloc", 1, 64 * MIB), event("free_requested", 1, 64 * MIB)),
        *(event("free_completed", 1, 64 * MIB), event("segment_free", 1, 64 * MIB)),
        event("alloc", 2, 128 * MIB),
    ]
    data = {"segments": [], "device_traces": [events]}
    (found,) = load_snapshot(write(tmp_path / "x", data))
    assert replay(found, "").reserved_bytes == 128 * MIB


def test_a_setting_that_cannot_be_parsed_is_refused(masked):
    with pytest.raises(AllocatorSettingsError):
        what_if(masked, ["max_split_size_mb:x"])
