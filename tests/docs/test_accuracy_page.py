"""``docs/accuracy.md`` is what ``python tests/accuracy.py`` would write.

That every workload is exact, or a known gap, is for the tests beside the backend to say; here it is
taken from them, and the rest of the page is made anew.
"""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import accuracy
from known_gaps import GAPS
from replays import Peaks, read, recorded

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(read("workloads")["torch"][:4]),
    reason="recorded with another torch",
)


@pytest.fixture(scope="module")
def text():
    return accuracy.PAGE.read_text("utf-8")


def test_the_page_is_current(text):
    assert text == accuracy.page(accuracy.claimed)


def test_it_is_narrow(text):
    assert max(map(len, text.splitlines())) <= 120


def test_every_gap_is_explained_and_every_other_workload_exact(text):
    for set_name in ("workloads", "workloads-held-out"):
        for workload, on in recorded(set_name).items():
            (row,) = (line for line in text.splitlines() if line.startswith(f"| `{workload}` |"))
            assert row.count("no answer" if workload in GAPS else " 0 0 0 ") == len(on)
    for workload, gap in GAPS.items():
        assert f"- `{workload}`: {gap.why}." in text


def test_an_error_would_be_seen():
    found = {"one": {"T4": (Peaks(1000, 1024, 2048), Peaks(990, 1024, 4096))}}
    assert (
        accuracy._table(found).splitlines()[-1] == "| `one` | 1,000 | 1,024 | 2,048 | -10 0 +2048 |"
    )
    assert accuracy._summary("set", found) == "| set | 1 | 0 | 2048 B | 2048 B | 1.00% |"
