import pytest

from pytest_attnmem.profiles import PROFILES
from pytest_attnmem.profiles.rows import SLICES


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
