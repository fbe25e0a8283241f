"""The memory of a simulated device, with allocations made by hand."""

import pytest

from pytest_attnmem.allocator import AllocationError, parse_settings
from pytest_attnmem.backends.simulated.memory.simulated_device import BACKWARD, MAIN, Device
from pytest_attnmem.backends.simulated.scratch.workspaces import CUBLAS, workspaces
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.protocol import Delta
from pytest_attnmem.measurement.timeline import timeline
from pytest_attnmem.profiles import find_profile

MIB = 1 << 20


def about(nbytes, where="attn.py:1"):
    return lambda: Held(nbytes, (nbytes,), "uint8", "empty", where, "f")


def opened(version):
    """Returns a device of a version of PyTorch, in a window."""
    profile = find_profile("A100-40GB")
    made = Device(profile, parse_settings(""), version, workspaces(profile, version, {}))
    made.recording = True
    return made


@pytest.fixture
def device():
    return opened((2, 13))


def take(device, nbytes):
    return device.allocate(nbytes, about(nbytes))


def test_an_allocation_raises_the_level_and_a_free_lowers_it(device):
    first = take(device, 1000)
    second = take(device, 3 * MIB)
    device.free(first)
    interval = device.interval()
    assert interval.requested == Delta(1000 + 3 * MIB, 3 * MIB)
    assert interval.allocated == Delta(1024 + 3 * MIB, 3 * MIB)
    assert interval.reserved == Delta(22 * MIB, 22 * MIB)
    assert interval.allocations == 2
    device.free(second)


def test_zero_bytes_are_not_an_allocation(device):
    assert device.allocate(0, about(0)) is None
    assert device.interval().allocations == 0


def test_the_tensors_alive_at_the_peak_are_known(device):
    early = take(device, 512)
    take(device, 2048)
    device.free(early)
    take(device, 100)
    interval = device.interval()
    assert [(birth, held.nbytes) for birth, held in interval.held] == [(0, 512), (1, 2048)]
    assert [(birth, held.nbytes) for birth, held in interval.left] == [(1, 2048), (2, 100)]


def test_a_later_window_knows_the_tensors_from_before(device):
    before = take(device, 512)
    device.begin()
    take(device, 1024)
    device.free(before)
    interval = device.interval()
    assert interval.requested == Delta(1024, 512)
    assert [number for number, _ in interval.held] == [0, 1]
    assert interval.first_allocation == 1


def test_an_older_tensor_takes_memory_that_no_window_counts_and_lowers_the_level(device):
    small = take(device, 1 * MIB)
    given = device.add_older(4 * MIB)
    take(device, 2 * MIB)
    device.free(given)
    device.free(small)
    interval = device.interval()
    assert interval.requested == interval.allocated == Delta(3 * MIB, -2 * MIB)
    assert device.statistics.requested.current == 2 * MIB


def test_others_take_the_place_of_what_was_allocated_outside_a_window(device):
    device.recording = False
    block, unused = take(device, 4 * MIB), take(device, 1 * MIB)
    device.free(unused)
    device.recording = True
    device.begin()
    take(device, 3 * MIB)
    device.free(block)
    take(device, 2 * MIB)
    interval = device.interval()
    assert (interval.requested, interval.allocations) == (Delta(3 * MIB, 1 * MIB), 2)
    assert [held.nbytes for _, held in interval.held] == [3 * MIB]
    assert timeline([(0, interval.events)]).levels() == [3 * MIB, -1 * MIB, 1 * MIB]


def test_the_program_may_reset_its_own_peaks_in_a_window(device):
    device.free(take(device, 8 * MIB))
    assert device.peaks()["allocated"] == 8 * MIB
    device.reset_peaks()
    take(device, 1 * MIB)
    assert device.peaks()["allocated"] == 1 * MIB
    assert device.interval().allocated == Delta(8 * MIB, 1 * MIB)


def test_the_programs_peaks_outlive_the_begin_of_a_window(device):
    device.free(take(device, 8 * MIB))
    device.begin()
    assert device.peaks()["requested"] == 8 * MIB
    assert device.interval().requested == Delta(0, 0)


def use_workspaces(device):
    """Uses the workspace of cuBLAS twice on one stream of two threads, and once on another."""
    for stream in (0, 0, 1):
        device.stream = stream
        for thread in (MAIN, BACKWARD):
            device.use_workspace(CUBLAS, thread, lambda nbytes: Held.of_workspace(nbytes, CUBLAS))


def test_each_thread_keeps_one_workspace_on_each_stream(device):
    use_workspaces(device)
    assert device.interval().requested == Delta(4 * 8_519_680, 4 * 8_519_680)


def test_a_workspace_that_is_not_kept_is_freed_after_each_call():
    made = opened((2, 15))
    made.prime()
    made.begin()
    use_workspaces(made)
    held = next(made.events())
    interval = made.interval()
    assert (interval.requested, interval.allocations) == (Delta(8_519_680, 0), 6)
    assert (held.op, held.workspace, held.scratch) == ("cuBLAS workspace", True, True)


def test_running_out_of_memory_is_raised_and_recorded(device):
    with pytest.raises(AllocationError):
        device.allocate(64 << 30, about(64 << 30, "attn.py:7"))
    interval = device.interval()
    assert interval.out_of_memory == "needs 64.0 GiB more at attn.py:7"
    device.begin()
    assert device.interval().out_of_memory == ""


def test_a_restarted_device_is_empty(device):
    old = take(device, 8 * MIB)
    device.restart()
    device.free(old)
    assert device.statistics.reserved.current == 0
    assert device.interval().left == ()


def test_a_collection_of_garbage_may_free_blocks_during_an_allocation(device, monkeypatch):
    """Automatic collections run outside windows, and where a program enables them."""
    blocks = [take(device, MIB * (at + 1)) for at in range(6)]
    find = device.allocator._segments.find

    def interrupted(*call):
        while len(blocks) > 2:
            device.free(blocks.pop(1))
        return find(*call)

    monkeypatch.setattr(device.allocator._segments, "find", interrupted)
    added = device.add_older(5 * MIB)
    blocks.append(take(device, 7 * MIB))
    assert device.statistics.requested.current == (1 + 6 + 5 + 7) * MIB
    for block in (*blocks, added):
        device.free(block)
    assert device.statistics.requested.current == 0
    assert device.statistics.inactive_split.current == 0
