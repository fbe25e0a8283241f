"""The parts of loops that are too long for 32-bit indices."""

from itertools import pairwise

import pytest

from pytest_attnmem.backends.simulated.scratch.tensor_iterator import Reduction, reduction


def over_rows(rows, columns, itemsize=4):
    return reduction((rows, columns), (columns, 1), itemsize, [itemsize], (1,), keepdim=True)


def test_a_short_loop_is_its_only_part():
    loop = over_rows(1000, 1000)
    assert [*loop.parts()] == [loop]


@pytest.mark.parametrize(("rows", "columns"), [(1 << 16, 1 << 16), (100_003, 65_537)])
def test_parts_of_a_tensor_that_a_device_holds_are_all_listed(rows, columns):
    loop = over_rows(rows, columns)
    parts = [*loop.parts()]
    assert sum(part.numel for part in parts) == loop.numel
    assert all(part.extent < 2**31 for part in parts)


def kinds(rows, columns):
    """Returns the distinct parts of a loop, found by halving it."""
    waiting, found = {over_rows(rows, columns)}, set()
    while waiting:
        loop = waiting.pop()
        if loop.indexed_by_32_bits():
            found.add(loop)
        else:
            dim = loop._longest()
            first = loop.shape[dim] // 2
            sizes = (0, first, loop.shape[dim])
            waiting |= {loop._part(dim, a, b - a) for a, b in pairwise(sizes)}
    return found


@pytest.mark.parametrize("size", [1_000_003, 10**9, 2**31 + 1, 2**61 + 1])
def test_parts_of_more_than_a_device_holds_are_listed_once(size):
    parts: list[Reduction] = [*over_rows(size, size).parts()]
    assert len(parts) == len({*parts}) < 100
    assert {*parts} == kinds(size, size)
