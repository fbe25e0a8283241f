"""Simulated peaks against those of PyTorch's allocator on the null device, to the byte."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from programs import PROGRAMS
from recordings import INSTALLED, read

HERE = Path(__file__).parents[2]
PROGRAMS_FILE, WORKLOADS_FILE = read("programs"), read("workloads")
KINDS = ("requested", "allocated", "reserved")
DEVICES = PROGRAMS_FILE["devices"]
PEAKS = {
    name: {device: found[name] for device, found in DEVICES.items() if name in found}
    for name in dict.fromkeys(name for found in DEVICES.values() for name in found)
}
ATTENTION = {
    name: {
        row["device"]: [row[kind] for kind in KINDS]
        for row in WORKLOADS_FILE["peaks"]
        if row["workload"] == name
    }
    for name in dict.fromkeys(row["workload"] for row in WORKLOADS_FILE["peaks"])
}
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
@pytest.mark.parametrize("name", PEAKS)
def test_a_program_has_the_recorded_peaks_on_each_device(run, name):
    check(run, PROGRAMS[name], PEAKS[name], UNKNOWN.get(name))


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_has_the_recorded_peaks_on_each_device(run, name):
    check(run, workloads()[name], ATTENTION[name], None)


def check(run, program, recorded, unknown):
    seen = {device: run(program, device, primed=False) for device in recorded}
    planned = {
        device for device, one in seen.items() if one.unmeasured and "cudnn" in one.unmeasured
    }
    for device in seen.keys() - planned:
        assert seen[device].unmeasured == (
            f"no model of {unknown}; use backend='null' or 'cuda'" if unknown else None
        )
    if not unknown:
        found = {
            device: [one.peak_bytes, one.allocated_bytes, one.reserved_bytes]
            for device, one in seen.items()
            if device not in planned
        }
        assert found == {device: recorded[device] for device in found}
    if planned:
        pytest.skip("a device would use cuDNN, which the simulation has no model of")
