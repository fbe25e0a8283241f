"""Peaks of devices, against the vendor's published figures."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.inference.roof import (
    DTYPES,
    Roofline,
    bandwidth,
    computed_in,
    dtype_named,
    flops_per_second,
    roof,
)
from pytest_attnmem.profiles import ARCHITECTURES, PROFILES, DeviceProfile

#: Profile → GB/s of memory, by NVIDIA's data sheets and white papers.
BANDWIDTH = {"T4": 320, "A100-80GB": 2039, "A10G": 600, "RTX 4090": 1008, "H100": 3350}

#: Profile and dtype → TFLOPS of dense matrices, by the same sheets: a T4, an A100, each board with
#: a half rate and each with a clock of its own for tensor cores.
COMPUTE = {
    ("T4", "fp32"): 8.1,
    ("T4", "int4"): 260,
    ("A100-80GB", "fp32"): 19.5,
    ("A100-80GB", "bf16"): 312,
    ("A100-80GB", "int8"): 624,
    ("A10G", "fp32"): 35,
    ("A10G", "bf16"): 70,
    ("A10G", "int8"): 140,
    ("RTX 3090", "fp16"): 71.2,
    ("RTX 3090", "int8"): 285,
    ("RTX 4090", "fp8"): 330.3,
    ("RTX 4090", "int8"): 660.6,
    ("H100", "fp32"): 67,
    ("H100", "fp16"): 989.4,
    ("H200", "fp8"): 1979,
    ("B200", "fp4"): 9000,
}


@pytest.mark.parametrize("name", BANDWIDTH)
def test_bandwidth_is_the_published_one(name):
    assert bandwidth(PROFILES[name]) == pytest.approx(BANDWIDTH[name] * 1e9, rel=0.004)


@pytest.mark.parametrize(("name", "dtype"), COMPUTE)
def test_compute_is_the_published_one(name, dtype):
    # Published figures have two to five digits.
    published = COMPUTE[name, dtype] * 1e12
    assert flops_per_second(PROFILES[name], dtype) == pytest.approx(published, rel=0.008)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_half_rate_and_a_tensor_clock_are_facts_of_the_profile(dtype):
    plain = DeviceProfile("another", 1 << 30, (8, 9), 10, 1 << 20, 64, 1000, 1000)
    computed = computed_in(plain, dtype)
    full = flops_per_second(plain, computed)
    half = replace(plain, half_rate=frozenset({computed}))
    assert flops_per_second(half, computed) == full // 2
    slower = replace(plain, tensor_clock_mhz=500)
    assert flops_per_second(slower, computed) == (full if computed == "fp32" else full // 2)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_narrower_dtypes_are_never_slower(profile):
    rates = {dtype: roof(profile, dtype).compute_flops for dtype in DTYPES}
    for order in (("fp32", "tf32", "fp16", "fp8", "fp4"), ("fp16", "int8", "int4")):
        for wide, narrow in pairwise(order):
            # The tensor cores of a GA102 with a half rate are as fast in TF32 as its other cores.
            assert rates[wide] <= 1.001 * rates[narrow], (wide, narrow)


def test_peaks_are_exact():
    a100 = roof(PROFILES["A100-80GB"], "fp16")
    assert a100.bandwidth_bytes_per_sec == 2_039_040_000_000
    assert a100.compute_flops == 311_869_440_000_000
    assert a100.memory_bytes == PROFILES["A100-80GB"].memory_bytes
    assert a100.ridge == 311_869_440 / 2_039_040


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
    rate = getattr(ARCHITECTURES[capability].rates, computed_in(device, dtype))
    assert roof(device, dtype).compute_flops == 10**10 * rate > 0
    assert roof(device, dtype).bandwidth_bytes_per_sec == 16 * 10**9


def test_a_dtype_is_found_by_torchs_name_too_and_an_unknown_one_told_what_there_is():
    names = ("fp16", "float16", "bfloat16", "float32")
    assert [dtype_named(name, "--dtype") for name in names] == ["fp16", "fp16", "bf16", "fp32"]
    for name in ("fp17", "", "FP16"):
        with pytest.raises(BudgetError) as caught:
            dtype_named(name, "--dtype")
        assert str(caught.value) == (
            f"--dtype: expected one of fp32, tf32, fp16, bf16, fp8, int8, fp4, int4, got {name!r}"
        )


rates = st.floats(min_value=1, max_value=1e16)


@given(rates, rates, rates, rates)
def test_a_roof_rises_to_the_ridge_and_no_further(compute_flops, moved, one, other):
    device = Roofline("any", None, moved, compute_flops)
    low, high = sorted([one, other])
    assert device.attainable(low) <= device.attainable(high) <= compute_flops
    assert device.attainable(device.ridge) == pytest.approx(compute_flops, rel=1e-15)
    assert not device.is_memory_bound(device.ridge)
    assert device.is_memory_bound(0.999 * device.ridge)
    assert device.attainable(0.999 * device.ridge) < compute_flops
