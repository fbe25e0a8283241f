"""Programs with CPU and CUDA tensors on the null device: the reference of the simulation."""

SCRIPT = """
import sys
from pathlib import Path
import pytest_attnmem
from pytest_attnmem.backends.null import program
program.prepare(None)
sys.path.insert(0, str(Path(pytest_attnmem.__file__).parents[1] / "tests"))
from placements import NEEDED
found = {}
for run in NEEDED:
    seen = pytest_attnmem.measure(run, backend="null")
    found[run.__name__] = [seen.peak_bytes, seen.retained_bytes]
answer(found, {run.__name__: numbers for run, numbers in NEEDED.items()})
"""


def test_the_null_device_needs_what_is_written_down(under):
    found, written = under(SCRIPT)
    assert found == written
