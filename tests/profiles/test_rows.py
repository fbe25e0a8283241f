import pytest

from pytest_attnmem.profiles import ARCHITECTURES, PROFILES


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_profile_is_whole(profile):
    architecture = profile.architecture
    assert architecture is ARCHITECTURES[profile.compute_capability]
    assert profile.memory_bytes % 512 == 0
    assert 0 < architecture.shared_bytes_per_block <= architecture.shared_bytes_per_multiprocessor
    sizes = (profile.multiprocessors, profile.l2_bytes, profile.bus_bits, profile.clock_mhz)
    assert all(size > 0 for size in sizes)
    assert profile.source


@pytest.mark.parametrize(
    ("name", "sold"),
    [
        *[("P100", 16), ("V100", 16), ("T4", 16), ("A30", 24), ("A100-80GB", 80), ("L40S", 48)],
        *[("RTX 4090", 24), ("RTX 5090", 32), ("RTX PRO 6000", 96), ("H100-PCIe", 80)],
        *[("H200", 141), ("H20", 96), ("B200", 180), ("GB200", 186), ("B300", 288)],
    ],
)
def test_memory_is_a_little_under_what_is_sold(name, sold):
    assert 0.95 * sold * 10**9 < PROFILES[name].memory_bytes < 1.08 * sold * 10**9


@pytest.mark.parametrize(
    ("capability", "kernels"),
    [((6, 1), None), ((7, 5), (7, 5)), ((8, 7), None), ((8, 9), (8, 6)), ((10, 3), (10, 0))],
)
def test_kernels_are_those_of_pytorchs_builds_for_cuda_13(capability, kernels):
    assert ARCHITECTURES[capability].kernels == kernels
