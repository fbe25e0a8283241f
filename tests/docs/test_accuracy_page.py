"""``docs/evidence/accuracy.md`` is what ``python tests/accuracy.py`` would write.

That every workload is exact, or a known gap, is for the tests beside the backend to say; here it is
taken from them, and the rest of the page is made anew.
"""

import accuracy
import pytest
from known_gaps import GAPS, UNSETTLED
from recordings import INSTALLED, VERSIONS
from replays import Peaks, recorded

pytestmark = pytest.mark.skipif(INSTALLED != "2.13", reason="the page is written with torch 2.13")


@pytest.fixture(scope="module")
def text():
    return accuracy.PAGE.read_text("utf-8")


def test_the_page_is_current(text):
    assert text == accuracy.page(accuracy.claimed)


def test_it_is_narrow(text):
    assert max(map(len, text.splitlines())) <= 120


def test_every_gap_is_explained_and_every_other_workload_exact(text):
    for set_name in ("workloads", "workloads-held-out"):
        for workload in recorded(set_name):
            (row,) = (line for line in text.splitlines() if line.startswith(f"| `{workload}` |"))
            error = f"0 0 {-UNSETTLED.get(workload, 0)}"
            error = "no answer" if workload in GAPS else error
            assert row.count(f" {error} on ") == len(VERSIONS)
    for workload, gap in GAPS.items():
        assert f"- `{workload}`: {gap.why}." in text


def test_an_error_would_be_seen():
    exact, wrong = (Peaks(1000, 1024, 2048),) * 2, (Peaks(1000, 1024, 2048), Peaks(990, 1024, 4096))
    found = {"one": {"T4": wrong}}
    versions = {"2.13": {"one": {"T4": exact, "H100": exact}}, "2.15": {"one": {"T4": wrong}}}
    versions |= {"2.14": {"one": {"T4": exact, "H100": wrong}}}
    cells = accuracy._table({version: versions[version] for version in VERSIONS}).splitlines()[-1]
    assert cells == (
        "| `one` | 1,000 | 1,024 | 2,048 | 0 0 0 on 2 | 0 0 0 on T4, -10 0 +2048 on H100"
        " | -10 0 +2048 on 1 |"
    )
    summary = accuracy._summary("2.15", "set", found)
    assert summary == ("2.15", "set", 1, 0, "2048 B", "2048 B", "1.00%")
