"""Calls of operators with data against their recordings on null devices."""

import expressions
import pytest
import torch
from opinfo import peaks_so_far
from opinfo_samples import backward
from recordings import read
from replays import device, emptied

from pytest_attnmem.errors import CannotSimulate

RECORDED = read("expressions")
#: The most calls that are not enforced, for want of a rule or of a size.
REFUSED = 49


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", range(len(RECORDED["devices"])), ids=RECORDED["devices"])
def test_a_call_has_the_recorded_peaks(few, place):
    """Runs all calls on the first device, and on another one those with other peaks."""
    simulated = device(RECORDED["devices"][place])
    wrong, refused = [], []
    recorded = zip(expressions.CALLS, RECORDED["peaks"], strict=True)
    for call, rows in few(recorded, lambda row: row[0][1].partition(".")[0]):
        if place and rows[place] == rows[0]:
            continue
        try:
            found = peaks(simulated, *call)
        except CannotSimulate as error:
            found = [], str(error)
        if found[1] is not None:
            refused.append(call)
        elif rows[place] is None or found != (rows[place], None):
            wrong.append((call, rows[place], *found))
    assert wrong == []
    assert len(refused) <= REFUSED


def peaks(simulated, inputs, call):
    """Returns the peaks above the inputs, and why they are not to be trusted."""
    emptied(simulated)
    with simulated.world():
        torch.empty(0, device="cuda")  # names the device, before tensors of the host
        names = expressions.inputs(inputs)
        gauge = simulated.gauge()
        gauge.start()
        result = expressions.result(call, names)
        found = peaks_so_far(simulated)
        if backward(result):
            found += peaks_so_far(simulated)
        problem = gauge.stop().problem
    return found, problem
