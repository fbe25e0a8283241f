"""Peaks of devices, against what their vendor publishes."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.inference.roof import (
    DTYPES,
    RATES,
    Roofline,
    bandwidth,
    compute,
    computed_in,
    dtype_named,
    roof,
)
from pytest_attnmem.profiles import ARCHITECTURES, PROFILES, DeviceProfile

#: NVIDIA's data sheets and white papers, GB/s.
BANDWIDTH = {
    "GTX 1080": 320,
    "V100": 900,
    "T4": 320,
    "A100-40GB": 1555,
    "A100-80GB": 2039,
    "A10G": 600,
    "RTX 3090": 936,
    "L4": 300,
    "L40S": 864,
    "RTX 4090": 1008,
    "H100": 3350,
    "H200": 4800,  # of the 4917 that its memory's clock gives
    "B200": 7700,
}
#: The same sheets, TFLOPS of dense matrices: half of what those say that print "with sparsity".
COMPUTE = {
    "GTX 1080": {"fp32": 8.9},
    "V100": {"fp32": 15.7, "fp16": 125},
    "T4": {"fp32": 8.1, "fp16": 65, "int8": 130, "int4": 260},
    "A100-40GB": {"fp32": 19.5, "tf32": 156, "bf16": 312, "int8": 624, "int4": 1248},
    "A100-80GB": {"fp32": 19.5, "tf32": 156, "fp16": 312, "int8": 624, "int4": 1248},
    "A10G": {"fp32": 35, "tf32": 35, "bf16": 70, "fp16": 70, "int8": 140, "int4": 280},
    "RTX 3090": {"fp32": 35.6, "tf32": 35.6, "fp16": 71.2, "int8": 285, "int4": 569},
    "L4": {"fp32": 30.3, "tf32": 60.5, "fp16": 121, "fp8": 242.5, "int8": 242.5},
    "L40S": {"fp32": 91.6, "tf32": 183, "fp16": 366.5, "fp8": 733, "int8": 733},
    "RTX 4090": {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp8": 330.3, "int8": 660.6},
    "H100": {"fp32": 67, "tf32": 494.7, "fp16": 989.4, "fp8": 1978.9, "int8": 1978.9},
    "H200": {"fp32": 67, "tf32": 494.5, "bf16": 989.5, "fp8": 1979, "int8": 1979},
    "B200": {"fp32": 75, "tf32": 1100, "bf16": 2250, "fp8": 4500, "int8": 4500, "fp4": 9000},
}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_bandwidth_is_what_is_published(profile):
    share = {"H200": 0.025}.get(profile.name, 0.004)
    assert bandwidth(profile) == pytest.approx(BANDWIDTH[profile.name] * 1e9, rel=share)


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, found in COMPUTE.items() for dtype in found]
)
def test_compute_is_what_is_published(name, dtype):
    # Published figures have two to five digits: tf32 of B200 is sold as 2.2 PFLOPS with sparsity.
    share = 0.025 if (name, dtype) == ("B200", "tf32") else 0.008
    assert compute(PROFILES[name], dtype) == pytest.approx(COMPUTE[name][dtype] * 1e12, rel=share)


def test_every_profile_was_looked_up():
    assert PROFILES.keys() == BANDWIDTH.keys() == COMPUTE.keys()
    assert RATES.keys() == ARCHITECTURES.keys()


def test_peaks_are_exact():
    a100 = roof(PROFILES["A100-80GB"], "fp16")
    assert a100.bandwidth_bytes_per_sec == 2_039_040_000_000
    assert a100.compute_flops == 311_869_440_000_000
    assert a100.memory_bytes == PROFILES["A100-80GB"].memory_bytes
    assert a100.ridge == Fraction(311_869_440, 2_039_040)


@pytest.mark.parametrize(
    ("name", "dtype", "found"),
    [
        ("H100", "fp8", "fp8"),
        ("H100", "fp4", "fp8"),
        ("H100", "int4", "int8"),
        ("A100-80GB", "fp8", "fp16"),
        ("A100-80GB", "fp4", "fp16"),
        ("T4", "bf16", "fp32"),
        ("V100", "int8", "fp16"),
        ("V100", "tf32", "fp32"),
        ("GTX 1080", "int4", "fp32"),
        ("B200", "fp4", "fp4"),
    ],
)
def test_a_device_computes_in_what_it_has(name, dtype, found):
    assert computed_in(PROFILES[name], dtype) == roof(PROFILES[name], dtype).dtype == found


@pytest.mark.parametrize("capability", ARCHITECTURES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_architecture_computes_every_dtype_in_something(capability, dtype):
    device = DeviceProfile("another", 1 << 30, capability, 10, 1 << 20, 64, 1000, 1000)
    assert roof(device, dtype).compute_flops == 10**10 * getattr(
        RATES[capability], computed_in(device, dtype)
    )
    assert roof(device, dtype).bandwidth_bytes_per_sec == 16 * 10**9


@pytest.mark.parametrize(
    ("name", "found"),
    [("fp16", "fp16"), ("float16", "fp16"), ("bfloat16", "bf16"), ("float32", "fp32")],
)
def test_a_dtype_is_found_by_torchs_name_too(name, found):
    assert dtype_named(name, "--dtype") == found


@pytest.mark.parametrize("name", ["fp17", "", "FP16"])
def test_an_unknown_dtype_is_told_what_there_is(name):
    with pytest.raises(BudgetError) as caught:
        dtype_named(name, "--dtype")
    assert str(caught.value) == (
        "--dtype: expected one of fp32, tf32, fp16, bf16, fp8, int8, fp4, int4, got " + repr(name)
    )


rates = st.fractions(min_value=1, max_value=10**16)


@given(rates, rates, rates, rates)
def test_a_roof_rises_to_the_ridge_and_no_further(compute_flops, moved, one, other):
    device = Roofline("any", None, moved, compute_flops)
    low, high = sorted([one, other])
    assert device.attainable(low) <= device.attainable(high) <= compute_flops
    assert device.attainable(device.ridge) == compute_flops
    assert not device.is_memory_bound(device.ridge)
    assert device.is_memory_bound(low) == (device.attainable(low) < compute_flops)
