"""Rows, the device's facts, the file and the table, with backends whose numbers are given."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_attnmem.errors import AttnMemError, BackendUnavailable
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.verification import document, table
from pytest_attnmem.verification.comparison import Peaks, Row, compare
from pytest_attnmem.verification.device_facts import (
    device_facts,
    differing,
    profile_facts,
    profile_for,
)
from pytest_attnmem.verification.document import Recorded, Verification

H100 = find_profile("H100")


class Given:
    """A backend that answers by a table."""

    def __init__(self, **known):
        self.known = known
        self.asked = []

    def ask(self, name, until):
        self.asked.append(name)
        return "it is gone" if name == "gone" else ""

    def answer(self, until):
        return self.known[self.asked[-1]]


def verification(*rows):
    facts = profile_facts(H100)
    device = {**facts, "name": "NVIDIA H100 80GB HBM3", "l2_bytes": 7, "bus_bits": None}
    versions = {"torch": "2.13.0+cu130", "cuda": "13.0"}
    return Verification("cuda", "H100", versions, device, facts, rows)


SAME = Row("a/same", {"cuda": Peaks(1, 512, 2048), "null": Peaks(1, 512, 2048)})
MORE = Row("a/more", {"cuda": Peaks(1000, 1024, 2048), "null": Peaks(1000, 512, 4096)})
LOST = Row("b/lost", {"cuda": Peaks(9, 512, 2048), "null": Peaks(problem="no model of it")})


def test_every_backend_is_asked_and_held_to_the_first():
    cuda = Given(one=Peaks(1, 2, 3), two=Peaks(4, 5, 6))
    null = Given(one=Peaks(1, 2, 3), two=Peaks(4, 5, 7))
    one, two, gone = compare({"cuda": cuda, "null": null}, ["one", "two", "gone"], 60)
    assert (one.differs, one.compared, one.differences) == (False, True, {"null": (0, 0, 0)})
    assert (two.differs, two.differences) == (True, {"null": (0, 0, 1)})
    assert (gone.compared, gone.differs, gone.differences) == (False, False, {})
    assert cuda.asked == null.asked == ["one", "two", "gone"]


def test_no_workload_starts_after_the_limit_of_time():
    times = iter([0.0, 0.0, 9.0, 10.0])
    cuda = Given(a=Peaks(1, 2, 3), b=Peaks(1, 2, 3), c=Peaks(1, 2, 3))
    rows = compare({"cuda": cuda}, ["a", "b", "c"], 10, lambda: next(times))
    assert [row.name for row in rows] == ["a", "b"]


def test_the_table_has_bytes_differences_reasons_and_sums():
    assert table.render(verification(SAME, MORE, LOST)) == [
        "NVIDIA H100 80GB HBM3 (torch 2.13.0+cu130, cuda 13.0), beside the profile H100",
        "  l2_bytes: 7 on the device, 52,428,800 in the profile",
        "",
        "workload  requested  allocated  reserved      null more",
        "a/same            1        512     2,048              =",
        "a/more        1,000      1,024     2,048  0 -512 +2,048",
        "b/lost            9        512     2,048              –",
        "",
        "– was not measured:",
        "  null: b/lost: no model of it",
        "",
        "3 workloads: 1 equal to the byte, 1 differ, 1 not compared on all backends",
    ]


def test_the_file_keeps_everything(tmp_path):
    found = verification(SAME, MORE, LOST)
    path = tmp_path / "h100.json"
    for one in (found, replace(found, complete=False), replace(found, rows=())):
        path.write_text(document.render(one), "utf-8")
        assert document.read(path) == one
    recorded = Recorded(found)
    recorded.ask("a/more", 0)
    assert recorded.answer(0) == Peaks(1000, 1024, 2048)
    recorded.ask("a/new", 0)
    assert recorded.answer(0) == Peaks(problem="not in the recording")


def changed(**parts):
    return json.dumps({**json.loads(document.render(verification(SAME))), **parts}).encode()


def measured(requested):
    return changed(workloads=[{"name": "a", "cuda": {"requested": requested}}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(schema=9), "expected the file that attnmem verify writes, schema 1"),
        (changed(workloads=[{"name": "a"}]), "a does not begin with cuda, its reference"),
        (changed(workloads=7), "TypeError: 'int' object is not iterable is missing or malformed"),
        (
            measured(True),
            "a on cuda is {'requested': True}; expected requested, allocated, reserved in bytes,"
            " or a problem",
        ),
        (measured(10**400), "a on cuda is {'requested': 1"),
        *((text, "") for text in (b"", b"{", b"[" * 100_000, b"\xff", b"null")),
    ],
    ids=range(10),
)
def test_another_file_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(AttnMemError) as error:
        document.read(path)
    assert str(error.value).startswith(f"cannot read {path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def properties(**changes):
    known = {
        "name": "NVIDIA H100 80GB HBM3",
        "major": 9,
        "minor": 0,
        "total_memory": 85_029_158_912,
        "multi_processor_count": 132,
        "L2_cache_size": 52_428_800,
        "clock_rate": 1_980_000,
    }
    return SimpleNamespace(**{**known, **changes})


def test_a_device_s_facts_are_held_to_the_closest_profile():
    facts = device_facts(properties())
    assert profile_for(facts) == H100
    assert differing(facts, profile_facts(H100)) == {
        "memory_bytes": (85_029_158_912, H100.memory_bytes)
    }
    assert profile_for(device_facts(properties(total_memory=150_000_000_000))).name == "H200"


def test_a_device_without_a_profile_gets_one_of_its_facts():
    facts = device_facts(properties(multi_processor_count=99, name="NVIDIA H99"))
    made = profile_for(facts)
    assert (made.name, made.multiprocessors, made.clock_mhz) == ("H99", 99, 1980)
    assert (made.memory_bytes, made.compute_capability) == (85_029_158_912, (9, 0))
    with pytest.raises(BackendUnavailable) as error:
        profile_for(device_facts(properties(major=3, minor=5)))
    assert str(error.value).startswith(
        "the device has compute capability 3.5, of which nothing is known here; expected one of 6.0"
    )
