"""Simulated peaks against those of PyTorch's allocator on the null device, to the byte."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from programs import PROGRAMS
from recordings import INSTALLED, read

HERE = Path(__file__).parents[2]
PROGRAMS_FILE, WORKLOADS_FILE = read("programs"), read("workloads")
KINDS = ("requested", "allocated", "reserved")
CASES = [
    pytest.param(device, name, peaks, id=f"{device}-{name}")
    for device, found in PROGRAMS_FILE["devices"].items()
    for name, peaks in found.items()
]
ATTENTION = [
    pytest.param(row["device"], row["workload"], [row[kind] for kind in KINDS], id=name)
    for row in WORKLOADS_FILE["peaks"]
    for name in [f"{row['device']}-{row['workload']}"]
]
#: The programs with an operator without a rule; all others agree to the byte.
UNKNOWN: dict[str, str] = {}
if INSTALLED != "2.13":  # later versions copy an expanded gradient inside the operator
    UNKNOWN["groupnorm"] = "aten.native_group_norm_backward.default"


def workloads():
    spec = spec_from_file_location("workloads", HERE / "null" / "workloads.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WORKLOADS


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize(("device", "name", "peaks"), CASES)
def test_a_program_has_the_recorded_peaks(run, device, name, peaks):
    check(run(PROGRAMS[name], device, primed=False), peaks, UNKNOWN.get(name))


@pytest.mark.parametrize(("device", "name", "peaks"), ATTENTION)
def test_attention_has_the_recorded_peaks(run, device, name, peaks):
    check(run(workloads()[name], device, primed=False), peaks, None)


def check(seen, peaks, unknown):
    if seen.unmeasured and "cudnn" in seen.unmeasured:
        pytest.skip("a device would use cuDNN, which the simulation has no model of")
    assert seen.unmeasured == (f"no model of {unknown}" if unknown else None)
    if not unknown:
        assert [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes] == peaks
