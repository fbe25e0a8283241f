"""The memory of a simulated device, told of births and deaths by hand."""

import pytest

from pytest_attnmem.allocator import OutOfMemory, parse_settings
from pytest_attnmem.backends.simulated.simulated_device import BACKWARD, MAIN, Device
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.protocol import Delta
from pytest_attnmem.profiles import find_profile

MIB = 1 << 20


def about(nbytes, where="attn.py:1"):
    return lambda: Held(nbytes, (nbytes,), "uint8", "empty", where, "f")


@pytest.fixture
def device():
    made = Device(find_profile("A100-40GB"), parse_settings(""))
    made.recording = True
    return made


def take(device, nbytes):
    return device.allocate(nbytes, about(nbytes))


def test_a_birth_raises_the_level_and_a_death_lowers_it(device):
    first = take(device, 1000)
    second = take(device, 3 * MIB)
    device.free(first)
    interval = device.interval()
    assert interval.requested == Delta(1000 + 3 * MIB, 3 * MIB)
    assert interval.allocated == Delta(1024 + 3 * MIB, 3 * MIB)
    assert interval.reserved == Delta(22 * MIB, 22 * MIB)
    assert interval.allocations == 2
    device.free(second)


def test_what_takes_no_memory_is_no_birth(device):
    assert device.allocate(0, about(0)) is None
    assert device.interval().allocations == 0


def test_who_was_alive_at_the_peak_is_known(device):
    early = take(device, 512)
    take(device, 2048)
    device.free(early)
    take(device, 100)
    interval = device.interval()
    assert [(birth, held.nbytes) for birth, held in interval.held] == [(0, 512), (1, 2048)]
    assert [(birth, held.nbytes) for birth, held in interval.left] == [(1, 2048), (2, 100)]


def test_a_later_stretch_knows_who_was_there_before(device):
    before = take(device, 512)
    device.begin()
    take(device, 1024)
    device.free(before)
    interval = device.interval()
    assert interval.requested == Delta(1024, 512)
    assert [birth for birth, _ in interval.held] == [0, 1]
    assert interval.births == 1


def test_an_input_takes_room_and_counts_neither_when_it_comes_nor_when_it_goes(device):
    small = take(device, 1 * MIB)
    given = device.add_input(4 * MIB)
    take(device, 2 * MIB)
    device.free(given)
    device.free(small)
    interval = device.interval()
    assert interval.requested == interval.allocated == Delta(3 * MIB, 2 * MIB)
    assert device.statistics.requested.current == 2 * MIB


def test_what_is_born_while_no_gauge_is_on_is_an_input(device):
    device.recording = False
    block = take(device, 4 * MIB)
    device.recording = True
    device.begin()
    device.free(block)
    interval = device.interval()
    assert (interval.requested, interval.allocations) == (Delta(0, 0), 0)


def test_the_program_may_reset_its_peaks_without_the_gauge_minding(device):
    device.free(take(device, 8 * MIB))
    assert device.peaks()["allocated"] == 8 * MIB
    device.reset_peaks()
    take(device, 1 * MIB)
    assert device.peaks()["allocated"] == 1 * MIB
    assert device.interval().allocated == Delta(8 * MIB, 1 * MIB)


def test_the_gauge_may_begin_without_the_program_minding(device):
    device.free(take(device, 8 * MIB))
    device.begin()
    assert device.peaks()["requested"] == 8 * MIB
    assert device.interval().requested == Delta(0, 0)


def test_each_thread_gets_one_workspace_on_each_stream(device):
    for stream in (0, 0, 1):
        device.stream = stream
        for thread in (MAIN, BACKWARD):
            device.workspace("cublas", thread, 1000, about(1000))
    assert device.interval().requested == Delta(4000, 4000)


def test_what_does_not_fit_is_refused_and_remembered(device):
    with pytest.raises(OutOfMemory):
        device.allocate(64 << 30, about(64 << 30, "attn.py:7"))
    interval = device.interval()
    assert interval.out_of_memory == "needs 64.0 GiB more at attn.py:7"
    device.begin()
    assert device.interval().out_of_memory == ""


def test_another_process_finds_it_empty(device):
    old = take(device, 8 * MIB)
    device.restart()
    device.free(old)
    assert device.statistics.reserved.current == 0
    assert device.interval().left == ()
