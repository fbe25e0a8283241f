"""One rank of many on the simulated device, against PyTorch's own group on a null device."""

import pytest
import rank_programs
import recordings
import torch
import torch.distributed as dist

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.backends.ranks.lone_rank import be_alone, leave_groups
from pytest_attnmem.backends.simulated.operators.collectives import collective_kernels

PEAKS = recordings.read("ranks")["peaks"]
#: The program reads objects of ranks that do not run.
OBJECTS = (
    "a value was read at rank_programs.py:91: the other ranks of allgather do not run, and were"
    " taken to hold what this holds"
)


@pytest.fixture(scope="module")
def rank():
    """The simulated device, on which this process is one rank of four."""
    be_alone()
    primed = open_primed("simulated:H100")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", str(rank_programs.RANK))
        patch.setenv("WORLD_SIZE", str(rank_programs.W))
        primed.run(lambda: dist.init_process_group("nccl"))
    yield primed
    leave_groups()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PEAKS)
def test_a_rank_needs_what_it_needs_over_pytorchs_own_group(rank, name):
    measurement, _ = rank.run(rank_programs.PROGRAMS[name])
    assert measurement.peak_bytes == PEAKS[name]
    assert measurement.unmeasured == (OBJECTS if name == "objects" else None)


def test_a_collective_that_pytorch_defines_later_is_followed():
    assert collective_kernels(None)
    library = torch.library.Library("c10d", "FRAGMENT")
    try:
        library.define("attnmem_later(Tensor x) -> Tensor")
        assert torch.ops.c10d.attnmem_later.default in collective_kernels(None)
    finally:
        library._destroy()
