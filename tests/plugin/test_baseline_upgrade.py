"""A session on another version of torch than the one that its baseline was recorded on."""

import json
import re

import pytest
import torch

from pytest_attnmem.plugin import baseline_numbers

from .baselines import entry, everywhere, needing, read_baseline, states, write_baseline

OLD, NOW, FILE = "scripted torch2.13", "scripted torch2.15", "attnmem-baseline.json"
MOVES = "all moves them, new keeps both"


@pytest.fixture
def upgraded(scripted, monkeypatch):
    """A suite on torch 2.15 that needs 120 bytes in each test."""
    monkeypatch.setattr(baseline_numbers, "depends_on", lambda backend, device: NOW)
    scripted.write(needing(120))
    return scripted


def test_an_upgrade_is_neither_a_regression_nor_unseen(upgraded):
    write_baseline(
        upgraded,
        entry("test_bare", 100, OLD),
        entry("test_marked", 130, OLD),
        entry("test_region", 120, OLD, "part"),
    )
    ran = upgraded.run("--attnmem-report")
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"other torch"}
    assert {row["baseline_torch"] for row in ran.rows} == {"2.13"}
    assert [row["baseline_bytes"] for row in ran.rows] == [100, 130, 120]
    assert ran.outcome("test_bare") == (
        "not enforced: baseline entry of torch 2.13, this is 2.15; --attnmem-update all moves it,"
        " new keeps both"
    )
    assert ran.outcome("test_marked") == "within"  # its own limit holds
    assert (
        f"{FILE}: recorded on torch 2.13, this is 2.15: 1 test needs more, 1 less, 1 the same;"
        f" --attnmem-update {MOVES}"
    ) in ran.result.outlines
    assert "baseline: 3 other torch" in ran.line
    table = [line for line in ran.result.outlines if line.startswith("test_suite.py::")]
    assert {" ".join(re.split("  +", line)[-2:]) for line in table} == {
        "+20 B (torch 2.13) not enforced",
        "-10 B (torch 2.13) within",
        "+0 B (torch 2.13) measured",
    }
    assert "stale" not in ran.text


def test_over_its_own_limit_a_test_fails_and_counts(upgraded):
    upgraded.write(needing(1100))
    write_baseline(upgraded, *everywhere(120, OLD))
    ran = upgraded.run("-k", "marked")
    assert ran.report("test_marked")[0] == "peak 1.1 KiB exceeds budget 1000 B (1.1x) on scripted"
    assert "this is 2.15: 1 test needs more;" in ran.text


@pytest.mark.parametrize("recorded", [OLD, "scripted"])
def test_all_moves_the_entries_and_then_they_hold(upgraded, recorded):
    write_baseline(upgraded, *everywhere(100, recorded), entry("test_gone", 7, recorded))
    ran = upgraded.run("--attnmem-update=all", "--attnmem-strict=all")
    assert ran.outcomes == {"passed": 3}
    was = "torch 2.13" if recorded == OLD else "an unknown torch"
    title = f"{FILE} (--attnmem-update all): 3 moved from {was} to 2.15 (3 changed), 1 as before"
    assert title in ran.result.outlines
    assert "this is 2.15" not in ran.text
    assert read_baseline(upgraded) == {
        f"test_bare {NOW}": 120,
        f"test_gone {recorded}".removesuffix(" scripted"): 7,  # it was not measured
        f"test_marked {NOW}": 120,
        f"test_region part {NOW}": 120,
    }
    again = upgraded.run("test_suite.py::test_bare", "test_suite.py::test_marked")
    assert set(states(again).values()) == {"same"}
    upgraded.write(needing(121))
    assert upgraded.run().outcomes == {"failed": 3}


def test_new_starts_a_file_with_both_versions_and_then_all_moves_nothing(upgraded, monkeypatch):
    write_baseline(upgraded, *everywhere(100, OLD))
    ran = upgraded.run("--attnmem-update=new")
    assert f"{FILE} (--attnmem-update new): 3 added, 3 as before" in ran.result.outlines
    upgraded.write(needing(130))
    ran = upgraded.run("--attnmem-update=all")
    assert f"{FILE} (--attnmem-update all): 3 changed, 3 as before" in ran.result.outlines
    write_baseline(upgraded, *everywhere(100, OLD), *everywhere(130, NOW)[:2])
    ran = upgraded.run("--attnmem-report")
    assert (
        f"{FILE}: recorded on torch 2.13, this is 2.15: 1 test needs more; --attnmem-update new"
        " writes them"
    ) in ran.result.outlines
    upgraded.run("--attnmem-update=all")
    assert len(read_baseline(upgraded)) == 6
    monkeypatch.setattr(baseline_numbers, "depends_on", lambda backend, device: OLD)
    upgraded.write(needing(100))
    ran = upgraded.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 3}
    assert set(states(ran).values()) == {"same"}


def test_where_versions_are_kept_a_test_is_told_to_add_its_entry(upgraded):
    write_baseline(upgraded, *everywhere(120, OLD), *everywhere(120, NOW)[1:])
    ran = upgraded.run()
    assert ran.outcome("test_bare") == (
        "not enforced: baseline entry of torch 2.13, this is 2.15; --attnmem-update new writes one"
    )


def test_entries_of_another_version_are_not_stale(upgraded):
    kept = (*everywhere(120, NOW), entry("test_gone", 7, OLD), entry("test_marked", 9, OLD))
    gone = (entry("test_gone", 7, NOW), entry("test_vanished", 7, "scripted"))
    write_baseline(upgraded, *kept, *gone)
    ran = upgraded.run()
    assert (
        f"{FILE}: 2 stale, measured no more: test_suite.py::test_gone, test_suite.py::test_vanished"
        "; --attnmem-update prune takes them out"
    ) in ran.result.outlines  # of this version, and of an unknown version
    upgraded.run("--attnmem-update=prune", "--attnmem-strict=all")
    written = json.loads((upgraded.path / FILE).read_text("utf-8"))["entries"]
    assert all(line in kept for line in written)
    assert len(written) == len(kept)


def test_a_file_of_an_earlier_version_is_compared_and_moved(suite):
    threads, version = torch.get_num_threads(), ".".join(torch.__version__.split(".")[:2])
    suite.tests("""
@pytest.mark.memory_budget
def test_it(): torch.empty(100, dtype=torch.uint8)
""")
    write_baseline(suite, entry("test_it", 100, f"cpu threads{threads}"))
    ran = suite.run("--attnmem-backend=cpu")
    assert ran.outcome("test_it") == (
        f"not enforced: baseline entry of an unknown torch, this is {version};"
        " --attnmem-update all moves it, new keeps both"
    )
    assert ran.row("test_it")["baseline_torch"] == "unknown"
    suite.run("--attnmem-backend=cpu", "--attnmem-update=all")
    assert read_baseline(suite) == {f"test_it cpu threads1 torch{version}": 100}
