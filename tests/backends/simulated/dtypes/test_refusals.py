"""Operators refuse the dtypes that CUDA's kernels refuse, with PyTorch's own error."""

import json

import pytest
import torch

from pytest_attnmem.backends.simulated.dtypes.names import LETTERS
from pytest_attnmem.backends.simulated.dtypes.operands import DECIDERS
from pytest_attnmem.backends.simulated.dtypes.refusals import FILE, Refusals
from pytest_attnmem.errors import CannotSimulate
from pytest_attnmem.torch_releases import KNOWN

FLOAT, COMPLEX = torch.float32, torch.complex64


def zeros(*shape, dtype=torch.int32):
    return torch.zeros(*shape, dtype=dtype, device="cuda")


REFUSED = {
    "\"host_softmax\" not implemented for 'Int'": lambda: torch.softmax(zeros(4, 4), -1),
    "\"addmm_cuda\" not implemented for 'Int'": lambda: zeros(4, 4) @ zeros(4, 4),
    "\"bitwise_and_cuda\" not implemented for 'Float'": lambda: zeros(4) & zeros(4, dtype=FLOAT),
    "\"round_cuda\" not implemented for 'ComplexFloat'": lambda: zeros(4, dtype=COMPLEX).round(),
}


@pytest.mark.parametrize("text", REFUSED)
def test_the_error_is_that_of_cuda_and_a_program_that_catches_it_is_not_enforced(run, text):
    raised = []

    def caught():
        try:
            REFUSED[text]()
        except NotImplementedError as error:
            raised.append(str(error))

    assert " fails on CUDA; use another dtype" in run(caught).unmeasured
    assert raised == [text]


def test_one_of_several_kernels_has_no_known_error(run):
    told = "aten.aminmax.default of uint16 fails on CUDA; use another dtype"

    def refused():
        with pytest.raises(CannotSimulate, match=told):
            torch.aminmax(zeros(4, dtype=torch.uint16))

    assert run(refused).unmeasured == told


def test_a_call_without_elements_may_run_in_every_window(run):
    told = "aten._softmax.default of int32 may fail on CUDA, though it has no elements"
    for _ in range(2):
        measured = run(lambda: torch.softmax(zeros(0, 4), -1))
        assert measured.unmeasured == f"{told}; use another dtype"


@pytest.mark.parametrize(
    "program",
    [
        lambda: zeros(4) + zeros(4),
        lambda: zeros(4).cumsum(0),
        lambda: zeros(4, dtype=torch.uint8) & 1,
        lambda: zeros(4).float().softmax(0),
        lambda: zeros(4, 4).cpu() @ zeros(4, 4).cpu(),
    ],
)
def test_what_runs_on_cuda_is_measured(run, program):
    assert run(program).unmeasured is None


def test_a_mask_of_bytes_chooses_and_its_copy_of_booleans_is_counted(run):
    def chosen():
        mask = zeros(1024, dtype=torch.uint8)
        return torch.where(mask, zeros(1024, dtype=FLOAT), zeros(1024, dtype=FLOAT))

    measured = run(chosen)
    assert measured.unmeasured is None
    assert measured.peak_bytes == 1024 * (1 + 4 + 4 + 4 + 1)


def test_every_version_has_its_rows_and_every_row_names_operators_of_torch():
    known = {f"{major}.{minor}" for major, minor in KNOWN}
    rows = json.loads(FILE.read_text("utf-8"))
    assert {version for row in rows for version in row[0].split()} == known
    installed = "{}.{}".format(*map(int, torch.__version__.split(".")[:2]))
    for versions, decider, _, letters, ops in rows:
        assert decider in DECIDERS
        assert set(letters) <= set(LETTERS)
        for op in ops.split() if installed in versions.split() else ():
            packet, _, overload = op.rpartition(".")
            assert hasattr(getattr(torch.ops.aten, packet), overload)
    assert len(rows) < 700


def test_another_version_has_the_refusals_of_the_newest():
    assert Refusals("9.9.0")._by_op == Refusals("{}.{}.0".format(*KNOWN[-1]))._by_op
    assert Refusals().of(torch.ops.aten.view.default) is None
