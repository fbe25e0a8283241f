"""What an interpreted kernel has: the memory of its tensors alone, and libdevice."""

import math
from types import SimpleNamespace

import numpy
import pytest
import torch

from pytest_attnmem.values.interpreted_triton import KernelMemory, computed

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


@pytest.mark.parametrize(
    ("symbol", "arguments", "expected"),
    [
        ("__nv_tanhf", (0.5,), math.tanh(0.5)),
        ("__nv_tanh", (0.5,), math.tanh(0.5)),
        ("__nv_erf", (0.5,), math.erf(0.5)),
        ("__nv_powf", (2.0, 3.0), 8.0),
        ("__nv_rsqrt", (4.0,), 0.5),
        ("__nv_cbrt", (-8.0,), -2.0),
        ("__nv_fast_expf", (1.0,), math.e),
        ("__nv_fast_fdividef", (1.0, 4.0), 0.25),
        ("__nv_fmaf", (2.0, 3.0, 4.0), 10.0),
        ("__nv_round", (-2.5,), -3.0),
        ("__nv_rint", (2.5,), 2.0),
        ("__nv_fdim", (1.0, 3.0), 0.0),
        ("__nv_exp10f", (2.0,), 100.0),
    ],
)
def test_a_function(symbol, arguments, expected):
    dtype = numpy.float64 if symbol[-1] != "f" or symbol == "__nv_erf" else numpy.float32
    found = computed(symbol, [numpy.full((2, 1), value, dtype) for value in arguments])
    assert (found.shape, found.dtype) == ((2, 1), dtype)
    wanted = numpy.full((2, 1), expected, dtype)
    assert numpy.abs(found - wanted).max() <= 4 * numpy.spacing(numpy.abs(wanted)).max()


def test_a_function_without_an_equivalent():
    with pytest.raises(NotImplementedError) as error:
        computed("__nv_cyl_bessel_i0f", [numpy.zeros(1)])
    assert str(error.value) == "the function __nv_cyl_bessel_i0f of libdevice has no equivalent"
