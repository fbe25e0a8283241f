"""The peaks on each kind of device are those that PyTorch's own CUDA code has on a null device."""

import device_programs
import pytest
import recordings

from pytest_attnmem import measure
from pytest_attnmem.profiles import find_profile

RECORDED = recordings.read("devices")


@pytest.mark.parametrize("device", device_programs.DEVICES)
def test_scratch_by_device(device):
    expected = dict(zip(RECORDED["programs"], RECORDED["peaks"][device], strict=True))
    if find_profile(device).compute_capability < (9, 0):
        expected["sort half"] = None  # CUB's scratch depends on the occupancy of a kernel
    if device == "B300":  # cuDNN was not asked for enough plans of its compute capability
        expected |= dict.fromkeys(("attention half", "attention half mask", "attention decode"))
    found = {}
    for name, program in device_programs.PROGRAMS.items():
        measured = measure(program, backend=f"simulated:{device}")
        found[name] = None if measured.unmeasured else measured.peak_bytes
    assert found == expected


@pytest.mark.parametrize("name", ["sort", "cumsum", "unique counts", "nonzero", "embedding"])
@pytest.mark.parametrize("device", ["V100", "Jetson AGX Orin"])
def test_a_device_without_kernels_has_no_scratch_of_cub(device, name):
    assert find_profile(device).kernels is None
    measured = measure(device_programs.PROGRAMS[name], backend=f"simulated:{device}")
    assert measured.unmeasured.startswith("no model of aten.")
