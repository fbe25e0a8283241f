import pytest

from pytest_attnmem.profiles import ARCHITECTURES, PROFILES
from pytest_attnmem.profiles.rows import SLICES


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


@pytest.mark.parametrize("profile", SLICES, ids=lambda profile: profile.name)
def test_a_slice_is_a_part_of_its_device(profile):
    whole = PROFILES[profile.name.partition(" MIG ")[0]]
    assert (profile.compute_capability, profile.clock_mhz, profile.memory_clock_mhz) == (
        whole.compute_capability,
        whole.clock_mhz,
        whole.memory_clock_mhz,
    )
    assert profile.l2_bytes * whole.bus_bits == whole.l2_bytes * profile.bus_bits
    assert profile.memory_bytes * whole.bus_bits <= whole.memory_bytes * profile.bus_bits
    assert 0 < profile.multiprocessors < whole.multiprocessors


def test_a_slice_has_the_memory_that_nvidia_smi_lists():
    listed = {"A100-40GB MIG 1g.5gb": 4.75, "H100 MIG 2g.20gb": 19.625, "H200 MIG 1g.18gb": 16}
    assert {name: PROFILES[name].memory_bytes / 2**30 for name in listed} == listed
