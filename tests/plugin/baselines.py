"""Baseline files of suites: the tests write and read them here."""

import json

#: A test of each kind that is measured.
SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget(1000)
def test_marked(): memory.use(NEEDED)

@pytest.mark.memory_budget
def test_bare(): memory.use(NEEDED)

def test_region(attnmem):
    with attnmem.region("part"):
        memory.use(NEEDED)
"""


def needing(nbytes):
    """Returns the suite with the given bytes for each test."""
    return SUITE.replace("NEEDED", str(nbytes))


def entry(test, nbytes, on="scripted", region="", **more):
    """Returns an entry as in the file."""
    line = {"test": f"test_suite.py::{test}", "metric": "peak", "on": on, "bytes": nbytes, **more}
    return {**line, "region": region} if region else line


def everywhere(nbytes, on="scripted"):
    """Returns an entry for each test of the suite."""
    return (
        entry("test_bare", nbytes, on),
        entry("test_marked", nbytes, on),
        entry("test_region", nbytes, on, "part"),
    )


def write_baseline(suite, *entries, name="attnmem-baseline.json"):
    return suite.write(json.dumps({"schema": 1, "entries": entries}), name)


def read_baseline(suite, name="attnmem-baseline.json"):
    """Returns test and region → bytes; entries of other environments have their name."""
    entries = json.loads((suite.path / name).read_text("utf-8"))["entries"]
    return {
        " ".join(filter(None, map(line.get, _NAMED))): line["bytes"]
        for line in map(_short, entries)
    }


_NAMED = ("test", "region", "on")


def _short(line):
    on = None if line["on"] == "scripted" else line["on"]
    return {**line, "test": line["test"].partition("::")[2], "on": on}


def states(ran):
    return {row["nodeid"].partition("::")[2]: row["baseline_state"] for row in ran.rows}
