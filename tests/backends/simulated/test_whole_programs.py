"""Simulated peaks against those of PyTorch's allocator on the null device, to the byte."""

import pytest
from programs import PROGRAMS
from recordings import INSTALLED, read
from replays import recorded, workloads

DEVICES = read("programs")["devices"]
PEAKS = {
    name: {device: found[name] for device, found in DEVICES.items() if name in found}
    for name in dict.fromkeys(name for found in DEVICES.values() for name in found)
}
ATTENTION = recorded("workloads")
#: The programs with an operator without a rule; all others agree to the byte.
UNKNOWN: dict[str, str] = {}
if INSTALLED != "2.13":  # later versions copy an expanded gradient inside the operator
    UNKNOWN["groupnorm"] = "aten.native_group_norm_backward.default"


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("name", PEAKS)
def test_a_program_has_the_recorded_peaks_on_each_device(run, name):
    check(run, PROGRAMS[name], PEAKS[name], UNKNOWN.get(name))


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_has_the_recorded_peaks_on_each_device(run, name):
    peaks = {
        device: [one.requested, one.allocated, one.reserved]
        for device, one in ATTENTION[name].items()
    }
    check(run, workloads("workloads")[name], peaks, None)


def check(run, program, peaks, unknown):
    seen = {device: run(program, device, primed=False) for device in peaks}
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
        assert found == {device: peaks[device] for device in found}
    if planned:
        pytest.skip("a device would use cuDNN, which the simulation has no model of")
