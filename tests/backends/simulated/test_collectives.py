"""One rank of many on the device, against PyTorch's own group on a null device."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import recordings

PEAKS = recordings.read("ranks")["peaks"]
OBJECTS = (
    "a value was read at rank_programs.py:91: the other ranks of allgather do not run, and were"
    " taken to hold what this holds"
)
SCRIPT = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = sys.argv[1:]
import rank_programs, torch.distributed as dist
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.backends.ranks.lone_rank import be_alone

be_alone()
os.environ.update(RANK=str(rank_programs.RANK), WORLD_SIZE=str(rank_programs.W))
primed, found = open_primed("simulated:H100"), {}
primed.run(lambda: dist.init_process_group("nccl"))
for name, program in rank_programs.PROGRAMS.items():
    seen, _ = primed.run(program)
    found[name] = [seen.peak_bytes, seen.unmeasured]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    """The peaks of the programs in a process that has the device, and why there are none."""
    folders = [str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *folders], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="NCCL's groups are those of Linux")
@pytest.mark.parametrize("name", PEAKS)
def test_a_rank_needs_what_it_needs_over_pytorchs_own_group(found, name):
    assert found[name] == [PEAKS[name], OBJECTS if name == "objects" else None]
