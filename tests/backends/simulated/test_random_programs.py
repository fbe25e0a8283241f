"""Programs that nobody chose have the peaks of PyTorch's allocator, to the byte."""

import empty_programs
import layout_programs
import mended_programs
import one_element_programs
import pytest
import random_programs
import recurrent_programs
from recordings import read

MODULES = (
    *(random_programs, layout_programs, mended_programs, recurrent_programs),
    *(one_element_programs, empty_programs),
)
PROGRAMS = {module.__name__: module.PROGRAMS for module in MODULES}
#: The recordings, and how many of their programs are answered at least.
RECORDINGS = {
    "random_programs": 80,
    "layout_programs": 94,
    "mended_programs": 41,
    "recurrent_programs": 52,
    "one_element_programs": 117,
    "empty_programs": 124,
}


@pytest.mark.parametrize(
    ("recording", "device"),
    [(name, device) for name in RECORDINGS for device in read(name)["devices"]],
)
@pytest.mark.filterwarnings("ignore:torch.searchsorted", "ignore:Using a non-tuple sequence")
def test_each_has_the_recorded_peaks(run, recording, device):
    recorded, found = read(recording)["devices"][device], {}
    for name in recorded:
        seen = run(PROGRAMS[recording][name], device, primed=False)
        if not seen.unmeasured:
            found[name] = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
    assert found == {name: recorded[name] for name in found}
    assert len(found) >= RECORDINGS[recording]


@pytest.mark.parametrize("op", mended_programs.REFUSED)
def test_an_operator_that_was_answered_wrongly_is_refused(run, op):
    assert run(mended_programs.REFUSED[op]).unmeasured == (
        f"no model of {op}; use backend='null' or 'cuda'"
    )
