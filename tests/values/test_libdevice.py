"""The functions of libdevice, in double and single precision."""

import math

import numpy
import pytest

from pytest_attnmem.values.interpreted_triton import computed


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
