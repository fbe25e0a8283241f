"""Programs that nobody chose have the peaks of PyTorch's allocator, to the byte."""

import pytest
from random_programs import PROGRAMS
from recordings import read

DEVICES = read("random_programs")["devices"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["tensors", "network"])
def test_each_has_the_recorded_peaks(run, device, kind):
    recorded = {name: peaks for name, peaks in DEVICES[device].items() if name.startswith(kind)}
    found = {}
    for name in recorded:
        seen = run(PROGRAMS[name], device, primed=False)
        peaks = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
        found[name] = seen.unmeasured or peaks
    assert found == recorded
    assert len(found) == 40
