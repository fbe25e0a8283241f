"""The memory of an interpreted kernel: its tensors' storages, and no address besides."""

from types import SimpleNamespace

import numpy
import pytest
import torch

from pytest_attnmem.values.interpreted_triton import KernelMemory

FIRST, SECOND = torch.zeros(8), torch.zeros(4)
A, B = FIRST.data_ptr(), SECOND.data_ptr()


@pytest.fixture
def memory():
    """Returns the memory of a kernel with parts of two tensors, which does nothing with it."""
    done = {name: lambda *given, name=name: name for name in ("load", "store", "atomic_cas")}
    native = SimpleNamespace(**done, atomic_rmw=lambda *given: "atomic_rmw", other=7)
    return KernelMemory(native, numpy, [FIRST[2:], SECOND])


def used(addresses, mask, memory):
    """Returns the results of each function at the addresses."""
    at = numpy.array(addresses, dtype=numpy.uint64)
    values = numpy.zeros(len(addresses), dtype=numpy.float32)
    mask = numpy.array(mask)
    yield lambda: memory.load(at, mask, values, numpy.dtype(numpy.float32))
    yield lambda: memory.store(at, values, memoryview(mask))
    yield lambda: memory.atomic_rmw(None, at, values, mask, None)
    if mask.all():
        yield lambda: memory.atomic_cas(at, values, values, None)


@pytest.mark.parametrize(
    ("addresses", "mask"),
    [
        ([A, A + 28], [True, True]),  # the whole storage, as of a view's base
        ([A + 28, B + 12], [True, True]),
        ([A - 4, A], [False, True]),
        ([0, 1], [False, False]),
    ],
)
def test_what_is_inside_is_done(memory, addresses, mask):
    done = ["load", "store", "atomic_rmw", "atomic_cas"]
    found = [use() for use in used(addresses, mask, memory)]
    assert found == done[: len(found)]
    assert len(found) >= 3
    assert memory.other == 7


@pytest.mark.parametrize(
    ("addresses", "mask"),
    [
        ([A - 4], [True]),
        ([A + 29], [True]),  # its last bytes
        ([B + 16], [True]),
        ([0], [True]),
        ([A, 2**63, B], [True, True, False]),
    ],
)
def test_what_is_outside_is_an_error(memory, addresses, mask):
    for use in used(addresses, mask, memory):
        with pytest.raises(MemoryError) as error:
            use()
        assert str(error.value) == "it uses an address that is outside its tensors"
