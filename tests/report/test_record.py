"""Rows are made from verdicts, and become dicts and back without loss."""

from dataclasses import replace

import pytest

from pytest_attnmem.budgets.budget import Budget, Obstacle
from pytest_attnmem.budgets.verdict import Outcome, judge, not_enforced
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import METRICS, Measurement
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.record import Record, from_dict, record, to_dict

HELD = Held(64, (2, 8), "float32", "mm", "attn.py:3", "attention")
LIVES = Timeline(3, (Allocation(HELD, 0, 2), Allocation(HELD, 1, None)), "the second run")


def test_the_fields_of_the_json() -> None:
    data = to_dict(Record("test_attn.py::test", held=(HELD,)))
    assert list(data) == [
        *("nodeid", "region", "outcome", "reason", "metric", "backend", "device", "shape"),
        *("budget", "limit_bytes", "peak_bytes", "allocated_bytes", "reserved_bytes"),
        *("retained_bytes", "baseline_bytes", "baseline_state", "baseline_torch"),
        *("workspace_bytes", "allocations", "duration_s", "held", "where", "timeline"),
        *("out_of_memory", "expected", "growth", "explanation"),
    ]
    assert data["timeline"] is None
    (held,) = data["held"]
    assert held == {
        **{"bytes": 64, "shape": [2, 8], "dtype": "float32", "op": "mm"},
        **{"where": "attn.py:3", "function": "attention"},
    }
    scratch = Held.of_scratch(64, "softmax", "attn.py:3", "attention")
    data = to_dict(Record("test_attn.py::test", held=(scratch,)))
    assert data["held"] == [{**held, "shape": [], "dtype": "", "op": "softmax (scratch)"}]
    assert from_dict(data).held == (scratch,)


def test_the_fields_of_a_timeline_are_those_of_what_is_held_and_when(seen: Measurement) -> None:
    data = to_dict(Record("test_attn.py::test", held=(HELD,), timeline=LIVES))
    (held,) = data["held"]
    assert data["timeline"] == {
        "events": 3,
        "note": "the second run",
        "spans": [{"born": 0, "died": 2, **held}, {"born": 1, "died": None, **held}],
    }
    row = record("test_a", "", None, replace(seen, timeline=LIVES), {}, "test_a.py:3")
    assert (row.timeline, row.where) == (LIVES, "test_a.py:3")


def test_a_row_tells_what_was_measured_and_held_to_what(seen: Measurement) -> None:
    whole = replace(seen, workspace_bytes=7, duration_s=0.5)
    verdict = judge(whole, Budget(1000, "1000 B", metric="retained"))
    assert record("test_a", "scores", verdict, whole, {"N": 4}) == Record(
        nodeid="test_a",
        region="scores",
        outcome=Outcome.WITHIN,
        metric="retained",
        backend="cpu",
        device="cpu",
        shape={"N": 4},
        budget="1000 B",
        limit_bytes=1000,
        peak_bytes=1024,
        allocated_bytes=1024,
        retained_bytes=256,
        workspace_bytes=7,
        allocations=3,
        duration_s=0.5,
    )


def test_a_row_without_a_budget_or_numbers_has_none(seen: Measurement) -> None:
    row = record("test_a", "scores", None, seen, {})
    assert (row.outcome, row.peak_bytes, row.limit_bytes) == (None, 1024, None)
    row = record("test_a", "x", None, replace(seen, unmeasured="a thread was started"), {})
    assert (row.outcome, row.reason) == (None, "a thread was started")
    row = record("test_a", "", not_enforced("skipped", Obstacle.NOT_FINISHED), None, {})
    assert row == Record("test_a", outcome=Outcome.NOT_ENFORCED, reason="skipped")


def test_a_row_tells_what_was_held_though_that_was_found_out_later(seen: Measurement) -> None:
    verdict = replace(judge(seen, Budget(1)), measurement=replace(seen, held=(HELD,)))
    assert record("test_a", "", verdict, seen, {}).held == (HELD,)


def test_the_value_is_the_number_of_the_metric_and_the_name_has_the_region() -> None:
    for metric in METRICS:
        row = Record("test_a", metric=metric, **{f"{metric}_bytes": 5})  # type: ignore[arg-type]
        assert row.value == 5
    assert Record("a.py::test").name == "a.py::test"
    assert Record("a.py::test", "scores").name == "a.py::test [scores]"


def test_fields_of_a_newer_version_are_passed_over_and_those_of_an_older_one_defaults() -> None:
    row = Record("test_a", held=(HELD,))
    data = to_dict(row)
    data["energy_j"] = 3
    data["held"][0]["stream"] = 7
    assert from_dict(data) == row
    data = {"nodeid": "test_a", "outcome": "within", "held": []}
    assert from_dict(data) == Record("test_a", outcome=Outcome.WITHIN)
    bare = to_dict(Record("a", held=(HELD,)))
    del bare["held"][0]["function"]
    assert from_dict(bare).held == (replace(HELD, function=""),)


def lives(**changes: object) -> dict[str, object]:
    """Returns a timeline with changes to it or to its first span."""
    data = to_dict(Record("test_a", timeline=LIVES))["timeline"]
    for name, value in changes.items():
        (data if name in data else data["spans"][0])[name] = value
    return {"timeline": data}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outcome": "passed"}, "ValueError 'passed' is not a valid Outcome"),
        ({"metric": "rss"}, "ValueError 'rss' is not a metric"),
        ({"metric": []}, "ValueError metric=[] is not of type str"),
        ({"nodeid": 3}, "ValueError nodeid=3 is not of type str"),
        ({"peak_bytes": "9"}, "ValueError peak_bytes='9' is not of type int | None"),
        (
            {"limit_bytes": 10**5000},
            "ValueError limit_bytes=<int of 16610 bits> is not of type int | None",
        ),
        ({"allocations": None}, "ValueError allocations=None is not of type int"),
        ({"duration_s": "long"}, "ValueError duration_s='long' is not of type float"),
        ({"shape": ["N"]}, "ValueError shape=['N'] is not of type Mapping[str, int]"),
        ({"shape": {"N": None}}, "ValueError shape={'N': None} is not of type Mapping[str, int]"),
        (
            {"held": [{"bytes": 1, "shape": "ab", "dtype": "", "op": "", "where": ""}]},
            "ValueError shape='ab' is not of type tuple[int, ...]",
        ),
        ({"held": None}, "TypeError 'NoneType' object is not iterable"),
        ({"timeline": {}}, "KeyError 'spans'"),
        ({"timeline": 3}, "TypeError 'int' object is not subscriptable"),
        (lives(spans=[{}]), "KeyError 'bytes'"),
        (lives(events=None), "ValueError events=None is not of type int"),
        (lives(events=10**18), "ValueError 1000000000000000000 events of 2 spans"),
        (lives(events=-1), "ValueError -1 events of 2 spans"),
        (lives(note=7), "ValueError note=7 is not of type str"),
        (lives(born="x"), "ValueError born='x' is not of type int"),
        (lives(born=-1), "ValueError a span from -1 to 2 of 3 events"),
        (lives(died=0), "ValueError a span from 0 to 0 of 3 events"),
        (lives(died=4), "ValueError a span from 0 to 4 of 3 events"),
        (lives(died="x"), "ValueError died='x' is not of type int | None"),
        (lives(shape=None), "ValueError shape=None is not of type tuple[int, ...]"),
        (lives(shape=[1.5]), "ValueError shape=(1.5,) is not of type tuple[int, ...]"),
        ({"held": [{}]}, "KeyError 'bytes'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_what_is_no_record_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(AttnMemError) as error:
        from_dict({**to_dict(Record("test_a")), **changes})
    assert str(error.value) == f"not a record of attnmem: {why}"
    for data in (None, 3, "text", [], ["nodeid"], {}):
        with pytest.raises(AttnMemError, match=r"^not a record of attnmem: "):
            from_dict(data)  # type: ignore[arg-type]
