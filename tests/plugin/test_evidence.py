"""Timelines are recorded only for files that show them."""

import json
from xml.etree import ElementTree

import pytest

from pytest_attnmem.report.record import from_dict

ATTENTION = """
import pytest
import torch

kept = []

def attention(q, k, v):
    return (q @ k.mT).softmax(-1) @ v

"""
SUITE = (
    ATTENTION
    + """
@pytest.mark.memory_budget("B*H*N*d*itemsize")
def test_over(qkv):
    attention(*qkv(1, 2, 64, 16))

@pytest.mark.memory_budget("1 MiB")
@pytest.mark.memory_budget("1 MiB", metric="retained")
def test_within(qkv, attnmem):
    q, k, v = qkv(1, 2, 64, 16, requires_grad=True)
    with attnmem.region("forward"):
        out = attention(q, k, v)
    with attnmem.region("backward", "1 MiB"):
        out.sum().backward()
    kept.append(out)

def test_region_over(qkv, attnmem):
    q, k, v = qkv(1, 2, 64, 16)
    with attnmem.region("scores", 100):
        attention(q, k, v)

def test_measured(attnmem):
    attnmem.check(attnmem.measure(torch.ones, 256), "1 KiB")
"""
)


def timeline(row):
    return from_dict(row).timeline


def shapes(row):
    return [span.held.shape for span in timeline(row).spans]


def test_who_was_alive_when_in_a_test_that_is_over_is_known_of_a_second_run(suite):
    suite.write(SUITE, "tests/test_attn.py")
    ran = suite.run()
    over, region = ran.row("test_over"), ran.row("test_region_over", "scores")
    assert shapes(over) == shapes(region) == [(2, 64, 64), (1, 2, 64, 64), (2, 64, 16)]
    assert timeline(over).note == "the second run"
    assert max(timeline(over).levels()) == over["peak_bytes"]
    assert ran.row("test_within")["timeline"] is None
    lines = SUITE.splitlines()
    assert {row["nodeid"]: row["where"] for row in ran.rows} == {
        f"tests/test_attn.py::{name}": f"tests/test_attn.py:{lines.index(first) + 1}"
        for name, first in {
            "test_over": '@pytest.mark.memory_budget("B*H*N*d*itemsize")',
            "test_within": '@pytest.mark.memory_budget("1 MiB")',
            "test_region_over": "def test_region_over(qkv, attnmem):",
            "test_measured": "def test_measured(attnmem):",
        }.items()
    }


def test_explaining_all_runs_whatever_was_measured_once_more(suite):
    suite.write(SUITE)
    ran = suite.run("--attnmem-explain=all")
    assert ran.outcomes == {"passed": 2, "failed": 2}
    for row in ran.rows:
        assert max(timeline(row).levels()) == row["peak_bytes"]
        assert row["held"]
    whole, kept = ran.row("test_within"), ran.row("test_within", metric="retained")
    assert sum(held["bytes"] for held in whole["held"]) == whole["peak_bytes"]
    assert sum(held["bytes"] for held in kept["held"]) == kept["retained_bytes"]
    assert len(shapes(ran.row("test_within", "forward"))) == 3
    assert shapes(ran.row("test_measured", "check")) == [(256,)]


def test_explaining_all_is_no_reason_to_fail_or_to_run_what_failed_again(suite):
    ran = suite.tests("""
ran = []

@pytest.mark.memory_budget("1 KiB")
def test_once():
    torch.ones(256)
    ran.append(1)
    assert len(ran) == 1

@pytest.mark.memory_budget("1 KiB")
def test_fails():
    torch.ones(256)
    ran.append(1)
    assert not ran

def test_counts():
    assert len(ran) == 2  # the run that explains leaves nothing
""").run("--attnmem-explain=all")
    assert ran.outcomes == {"passed": 2, "failed": 1}
    assert ran.outcome("test_once") == "within"
    assert ran.row("test_once")["timeline"] is None


def test_a_simulated_run_knows_by_itself(suite):
    suite.write(SUITE)
    ran = suite.run("--attnmem-backend=simulated", "--attnmem-explain=off")
    for row in ran.rows:
        assert max(timeline(row).levels()) == row["peak_bytes"]
        assert "second run" not in timeline(row).note


@pytest.mark.parametrize("wanted", ["--attnmem-html=page.html", "--attnmem-artifacts=out", None])
def test_a_row_tells_it_where_a_file_was_asked_for(suite, wanted):
    suite.write(SUITE)
    suite.write(
        """
from pathlib import Path

def pytest_attnmem_record(item, record):
    with Path(item.config.rootpath, "seen").open("a") as file:
        file.write(f"{record.timeline is not None}\\n")
""",
        "conftest.py",
    )
    options = ["--attnmem-backend=simulated", "-k", "test_over or test_within"]
    suite.run(*options, *([wanted] if wanted else []), json_file=None)
    assert set(suite.path.joinpath("seen").read_text().split()) == {str(wanted is not None)}


def test_junit_has_the_rows_and_artifacts_the_traces_of_those_that_are_over(suite):
    suite.write(SUITE)
    ran = suite.run("--junitxml=junit.xml", "--attnmem-artifacts=new/evidence")
    properties = ElementTree.parse(suite.path / "junit.xml").iter("property")
    rows = [json.loads(one.get("value")) for one in properties if one.get("name") == "attnmem"]
    assert len(rows) == len(ran.rows)

    def key(row):
        return row["nodeid"], row["region"], row["metric"]

    without = sorted(({**row, "timeline": None} for row in ran.rows), key=key)
    found = ({name: row[name] for name in without[0]} for row in rows)
    assert sorted(found, key=key) == without
    names = sorted(path.name for path in suite.path.joinpath("new/evidence").iterdir())
    assert [name.rpartition("-")[0] for name in names] == [
        "test_suite.py-test_over",
        "test_suite.py-test_region_over-scores",
    ]
    for name, row in zip(
        names, (ran.row("test_over"), ran.row("test_region_over", "scores")), strict=True
    ):
        data = json.loads(suite.path.joinpath("new/evidence", name).read_text())
        lives = [event for event in data["traceEvents"] if event["ph"] == "X"]
        spans = row["timeline"]["spans"]
        assert spans
        assert [event["args"]["bytes"] for event in lives] == [span["bytes"] for span in spans]


def test_artifacts_that_cannot_be_written_are_one_line_and_fail_the_session(suite):
    suite.write(
        ATTENTION
        + """
@pytest.mark.memory_budget("1 MiB")
def test_within(qkv):
    open("file", "x").close()
    attention(*qkv(1, 2, 64, 16))
"""
    )
    ran = suite.run("--attnmem-artifacts=file/evidence")
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    path = suite.path / "file" / "evidence"
    assert f"attnmem: cannot create {path}: Not a directory" in ran.result.outlines
    assert "Traceback" not in ran.text


SNAPSHOTS = """
import pickle
from scripted import Untraced, Scripted, memory, pytest_attnmem_register_backends
from dataclasses import replace
import scripted

class Traced:
    def start(self):
        memory.start()

    def stop(self):
        snapshot = {"device_traces": [[memory.level]], "segments": []}
        return replace(memory.stop(), snapshot=snapshot)

Scripted.tracer = lambda self: Traced()
"""
SCRIPTED = """
import pytest
from scripted import memory

@pytest.mark.memory_budget(4)
def test_over(attnmem):
    memory.use(8)
    with attnmem.region("part"):
        memory.take(5)
    memory.give(5)

@pytest.mark.memory_budget(4)
def test_within(): memory.use(4)
"""


@pytest.mark.parametrize("workers", [(), pytest.param(("-n1",), marks=pytest.mark.thorough)])
def test_the_allocators_snapshots_of_a_test_that_is_over_are_written_where_it_ran(
    scripted, workers
):
    import pickle

    scripted.write(SNAPSHOTS, "conftest.py")
    scripted.write(SCRIPTED)
    scripted.run("--attnmem-artifacts=out", *workers)
    (path,) = scripted.path.joinpath("out").iterdir()
    assert path.name.endswith(".snapshot.pickle")
    assert pickle.loads(path.read_bytes()) == {"device_traces": [[0, 5, 0]], "segments": []}


def test_snapshots_that_cannot_be_written_are_one_line(scripted):
    scripted.write(SNAPSHOTS, "conftest.py")
    scripted.write(SCRIPTED.replace("memory.use(8)", "memory.use(8); open('file', 'a')", 1))
    ran = scripted.run("--attnmem-artifacts=file/out", "-n1")
    line = f"attnmem: cannot create {scripted.path}/file/out: Not a directory"
    assert ran.result.outlines.count(line) == 1
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert ran.outcomes == {"passed": 1, "failed": 1}
