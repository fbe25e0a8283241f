"""A null device for which torch has no kernels is refused, as CUDA refuses its kernels."""

import pytest
from unavailable import refusal

from pytest_attnmem.backends.null.built_kernels import refuse
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.launch import Devices
from pytest_attnmem.profiles import PROFILES

BUILT = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize(
    ("name", "flags", "runs"),
    [
        # binaries of a device's major number
        *((name, BUILT, True) for name in ("T4", "A30", "L40S", "H20", "B300", "RTX 5090")),
        ("V100", BUILT, False),
        ("V100", ("sm_60",), False),
        ("V100", ("compute_60",), True),
        ("V100", ("compute_75",), False),
        ("Jetson Orin NX", BUILT, False),
        ("Jetson Orin NX", ("sm_87",), True),
        ("Jetson Orin NX", ("compute_80",), True),
        ("B300", ("sm_100a",), False),
        ("B300", ("sm_103a",), True),
        ("B300", ("sm_100f",), True),
        ("H100", ("compute_80f",), False),
        ("H100", ("gfx90a",), False),
        ("H100", (), False),
    ],
)
def test_what_runs_where(name, flags, runs):
    try:
        refuse(Devices(PROFILES[name]), "2.13.0", flags)
    except BackendUnavailable:
        assert not runs
    else:
        assert runs


def test_the_refusal_names_what_torch_has():
    assert refusal(refuse, Devices(PROFILES["P100"], 2), "2.13.0+cu130", BUILT) == (
        "torch 2.13.0+cu130 has no kernels for null:2xP100, whose compute capability is 6.0: it"
        ' has sm_75, sm_80, sm_86, sm_90, sm_100, sm_120; CUDA would say "no kernel image is'
        ' available for execution on the device"; take another device, or a build of torch for'
        " this one"
    )
