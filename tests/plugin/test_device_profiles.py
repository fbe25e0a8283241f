"""Devices that conftest files and plugins add."""

import pytest

from pytest_attnmem.profiles import PROFILES

pytestmark = pytest.mark.usefixtures("simulation_imported")

PROFILE = """
from pytest_attnmem.profiles import DeviceProfile

def profile(name="Tiny 1", memory=1 << 30, capability=(9, 0), clock=1000, **facts):
    return DeviceProfile(name, memory, capability, 8, 1 << 20, 256, clock, 1000, **facts)
"""
HOOK = f"{PROFILE}\ndef pytest_attnmem_device_profiles():\n    return "


@pytest.mark.parametrize("returned", ["[profile()]", "(profile() for _ in range(1))"])
def test_a_device_of_ones_own_is_simulated_by_its_name(suite, returned):
    suite.write(HOOK + returned, "conftest.py")
    ran = suite.tests("""
@pytest.mark.memory_budget("4 KiB")
def test_fits():
    torch.empty(1024)

@pytest.mark.memory_budget("4 GiB", backend="simulated:H200")
def test_large():
    torch.empty(2**30, dtype=torch.uint8)

@pytest.mark.memory_budget("4 GiB")
def test_too_large():
    torch.empty(2**30, dtype=torch.uint8)
""").run("--attnmem-backend=simulated:tiny-1")
    assert ran.outcome("test_fits") == "within"
    assert ran.row("test_fits")["backend"] == "simulated:Tiny 1"
    assert ran.row("test_fits")["workspace_bytes"] == 2 << 25  # as on sm90
    assert ran.outcome("test_large") == "within"
    assert ran.row("test_too_large")["outcome"] == "over"
    assert "1.0 GiB more" in ran.row("test_too_large")["reason"]


def test_an_unknown_device_is_told_those_that_were_added_too(suite):
    suite.write(HOOK + "[profile()]", "conftest.py")
    suite.write("def test_it(attnmem): attnmem.measure(print)")
    ran = suite.run("--attnmem-backend=simulated:Tiny")
    known = ", ".join([*(name for name in PROFILES if "MIG" not in name), "Tiny 1"])
    assert ran.result.errlines[0] == (
        f"ERROR: --attnmem-backend: unknown device 'Tiny'; did you mean Tiny 1? expected one of"
        f" {known}, or a slice such as A100-40GB MIG 1g.5gb"
    )


def test_profiles_of_several_plugins_are_known_together(suite):
    suite.write(HOOK + "[profile('Other')]", "other.py")
    suite.pytester.syspathinsert()
    suite.write(HOOK + "[profile()]", "conftest.py")
    suite.tests("""
@pytest.mark.memory_budget("4 KiB", backend="simulated:Other")
def test_other(): torch.empty(1024)

@pytest.mark.memory_budget("4 KiB", backend="simulated:Tiny 1")
def test_own(): torch.empty(1024)
""")
    assert suite.run("-p", "other").outcomes == {"passed": 2}


_EXPECTED = "expected a list of pytest_attnmem.profiles.DeviceProfile"
_CAPABILITIES = (
    "(6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3),"
    " (12, 0)"  # ARCHITECTURES
)
_RATES = "fp32, tf32, fp16, bf16, fp8, int8, fp4, int4"
#: What a device needs, by the field that is wrong.
_NEEDS = {
    "memory=0": "memory_bytes to be a whole number >= 1, got 0",
    "clock=1.5": "clock_mhz to be a whole number >= 1, got 1.5",
    **{
        f"tensor_clock_mhz={clock}": "tensor_clock_mhz to be a whole number >= 1 or None,"
        f" got {clock}"
        for clock in (0, 1.5)
    },
    **{
        f"half_rate={rates}": f"half_rate to be a frozenset of {_RATES}, got {rates}"
        for rates in ("'fp16'", "frozenset({'fp17'})")
    },
    "peer_access='yes'": "peer_access to be True or False, got 'yes'",
    **{
        f"capability={found}": f"a compute_capability that is one of {_CAPABILITIES}, got {found}"
        for found in ("(1, 0)", "[9, 0]", "9")
    },
}
#: What the hook returned, and the message about it.
WRONG = {
    **{found: f" returned {found}; {_EXPECTED}" for found in ("3", "'H100'", "[3]", "['H100']")},
    **{
        returned: f": device {name!r} exists already; give it a name of its own"
        for returned, name in (
            ("[profile('H100')]", "H100"),
            ("[profile('a100 80gb')]", "a100 80gb"),
            ("[profile()] * 2", "Tiny 1"),
        )
    },
    **{
        f"[profile({name!r})]": f": device {name!r} needs a name that begins with a letter and has"
        " no colon"
        for name in ("", "8xTiny", "0", "a:b", "a\nb", 3)
    },
    **{
        f"[profile({wrong})]": f": device 'Tiny 1' needs {needs}" for wrong, needs in _NEEDS.items()
    },
}


@pytest.mark.parametrize("returned", WRONG)
def test_what_is_no_device_ends_the_session_in_one_line(suite, returned):
    suite.write(HOOK + returned, "conftest.py")
    suite.write("def test_it(): pass")
    result = suite.run().result
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line]
    assert lines == [f"ERROR: pytest_attnmem_device_profiles{WRONG[returned]}"]


def test_one_profile_alone_is_told_to_be_put_in_a_list(suite):
    suite.write(HOOK + "profile()", "conftest.py")
    suite.write("def test_it(): pass")
    (line,) = [line for line in suite.run().result.errlines if line]
    assert line.startswith("ERROR: pytest_attnmem_device_profiles returned DeviceProfile(")
    assert line.endswith(_EXPECTED)
