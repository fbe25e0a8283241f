import dataclasses

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.profiles import PROFILES, find_profile


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("H100", "H100"),
        ("h100", "H100"),
        ("a100-80gb", "A100-80GB"),
        ("A100 80GB", "A100-80GB"),
        ("rtx-3090", "RTX 3090"),
        ("gtx1080", "GTX 1080"),
        ("h100-mig-1g.10gb", "H100 MIG 1g.10gb"),
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
        ("NVIDIA H100 PCIe", "; did you mean H100-PCIe?"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "; did you mean H100 MIG 1g.10gb?"),
        ("H100-80GB-1g.10gb", "; did you mean H100 MIG 1g.10gb?"),
        ("1g.10gb", "; did you mean A100-80GB MIG 1g.10gb or H100 MIG 1g.10gb?"),
        ("orin", "; did you mean Jetson AGX Orin or Jetson Orin NX?"),
        ("MIG", ""),
        ("A6000", ""),
        ("A", ""),
        ("", ""),
    ],
)
def test_an_unknown_name_is_told_what_there_is(name, hint):
    with pytest.raises(BackendUnavailable) as error:
        find_profile(name)
    whole = ", ".join(profile for profile in PROFILES if "MIG" not in profile)
    assert str(error.value) == (
        f"unknown device {name!r};{hint.removeprefix(';')} expected one of {whole}, or a slice such"
        " as A100-40GB MIG 1g.5gb"
    )


def test_a_profile_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PROFILES["H100"].memory_bytes = 1
    with pytest.raises(TypeError):
        PROFILES["X"] = PROFILES["H100"]
