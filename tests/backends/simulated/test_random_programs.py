"""Programs that nobody chose have the peaks of PyTorch's allocator, to the byte."""

from collections import Counter

import database_programs
import deterministic_programs
import empty_programs
import index_programs
import layout_programs
import mended_programs
import one_element_programs
import pytest
import random_programs
import recurrent_programs
import torch
from recordings import INSTALLED, read

MODULES = (
    *(random_programs, layout_programs, mended_programs, recurrent_programs),
    *(one_element_programs, empty_programs),
    *(database_programs, index_programs, deterministic_programs),
)
PROGRAMS = {module.__name__: module.PROGRAMS for module in MODULES}
#: The recordings, and how many of their programs are answered at least.
RECORDINGS = {
    "random_programs": 80,
    "layout_programs": 94,
    "mended_programs": 38,
    "recurrent_programs": 52,
    "one_element_programs": 110,
    "empty_programs": 110,
    "database_programs": 10,
    "index_programs": 7,
    # later versions copy the expanded gradient of a group norm inside the operator
    "deterministic_programs": 38 if INSTALLED == "2.13" else 36,
}


@pytest.mark.parametrize("device", ["A100-80GB", "H100", "B200"])
@pytest.mark.filterwarnings("ignore:torch.searchsorted", "ignore:Using a non-tuple sequence")
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward_ad's own
def test_each_has_the_recorded_peaks(run, few, device):
    recorded = {
        (recording, name): peaks
        for recording in RECORDINGS
        for name, peaks in read(recording)["devices"].get(device, {}).items()
    }
    chosen, found = few(recorded, lambda program: program[0]), {}
    for recording, name in chosen:
        seen = run(PROGRAMS[recording][name], device, primed=False)
        if not seen.unmeasured:
            found[recording, name] = [seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes]
    assert found == {program: recorded[program] for program in found}
    if chosen == [*recorded]:
        answered = Counter(recording for recording, _ in found)
        assert all(answered[name] >= RECORDINGS[name] for name, _ in recorded)


@pytest.mark.parametrize(
    ("program", "library"),
    [
        (lambda matrix: torch.linalg.inv(matrix), "cuSOLVER"),
        (lambda matrix: torch.linalg.cholesky(matrix.repeat(4, 1, 1)), "cuSOLVER"),
        (lambda matrix: torch.linalg.svd(matrix), "cuSOLVER"),
        (lambda matrix: torch.linalg.qr(matrix), "cuSOLVER"),
        (lambda matrix: torch.fft.fft2(matrix), "cuFFT"),
    ],
)
def test_the_library_is_named_whose_scratch_is_known_on_a_gpu_alone(run, program, library):
    assert run(lambda: program(torch.eye(3, device="cuda"))).unmeasured == (
        f"{library} takes scratch that is known on a GPU alone; keep it out of the window"
    )


def test_an_operator_is_refused_whose_deterministic_algorithm_no_rule_knows(run):
    x = torch.ones(4, 4)

    def program():
        torch.use_deterministic_algorithms(True)
        try:
            x.to("cuda").index_add(0, torch.tensor([1], device="cuda"), x[:1].to("cuda"))
        finally:
            torch.use_deterministic_algorithms(False)

    assert run(program).unmeasured == (
        "aten.index_add.default of deterministic algorithms on simulated; use null"
    )
    assert run(lambda: x.to("cuda")).unmeasured is None
