import dataclasses

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.profiles import ARCHITECTURES, PROFILES, find_profile


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100", "H100"),
        ("h100", "H100"),
        ("a100-80gb", "A100-80GB"),
        ("A100 80GB", "A100-80GB"),
        ("rtx-3090", "RTX 3090"),
        ("gtx1080", "GTX 1080"),
    ],
)
def test_a_name_is_found_in_any_case(name, found):
    assert find_profile(name) is PROFILES[found]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("A100", "; did you mean A100-40GB or A100-80GB?"),
        ("H1000", "; did you mean H100?"),
        ("NVIDIA H100 80GB HBM3", "; did you mean H100?"),
        ("3090", "; did you mean RTX 3090?"),
        ("RTX 4080", "; did you mean RTX 4090?"),
        ("L40", "; did you mean L40S?"),
        ("A6000", ""),
        ("A", ""),
        ("", ""),
    ],
)
def test_an_unknown_name_is_told_what_there_is(name, hint):
    with pytest.raises(BackendUnavailable) as error:
        find_profile(name)
    assert (
        str(error.value) == f"unknown device {name!r}; expected one of {', '.join(PROFILES)}{hint}"
    )


def test_a_profile_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PROFILES["H100"].memory_bytes = 1
    with pytest.raises(TypeError):
        PROFILES["X"] = PROFILES["H100"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_profile_is_whole(profile):
    architecture = profile.architecture
    assert architecture is ARCHITECTURES[profile.compute_capability]
    assert profile.memory_bytes % 512 == 0
    assert 0 < architecture.shared_bytes_per_block <= architecture.shared_bytes_per_multiprocessor
    sizes = (profile.multiprocessors, profile.l2_bytes, profile.bus_bits, profile.clock_mhz)
    assert all(size > 0 for size in sizes)


@pytest.mark.parametrize(
    ("name", "sold"), [("V100", 16), ("A100-80GB", 80), ("H200", 141), ("RTX 4090", 24)]
)
def test_memory_is_a_little_under_what_is_sold(name, sold):
    assert 0.95 * sold * 10**9 < PROFILES[name].memory_bytes < 1.08 * sold * 10**9
