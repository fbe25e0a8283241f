"""The JSON file: its schema, its way back, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_attnmem.api import AttnMem
from pytest_attnmem.environment import describe
from pytest_attnmem.errors import AttnMemError, BudgetExceeded
from pytest_attnmem.instrument import ready
from pytest_attnmem.measurement import METRICS, Held, Measurement
from pytest_attnmem.record import Record, record
from pytest_attnmem.report.json import load, render
from pytest_attnmem.shape import AttentionShape
from pytest_attnmem.summary import summarise
from pytest_attnmem.verdict import Outcome, Verdict

NUMBER: dict[str, Any] = {"type": "integer"}
MAYBE: dict[str, Any] = {"type": ["integer", "null"]}
TEXT: dict[str, Any] = {"type": "string"}


def exactly(**properties: Any) -> dict[str, Any]:
    """An object with these keys, all of them and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


HELD = exactly(
    bytes=NUMBER,
    shape={"type": "array", "items": NUMBER},
    dtype=TEXT,
    op=TEXT,
    where=TEXT,
    function=TEXT,
)
RESULT = exactly(
    nodeid=TEXT,
    region=TEXT,
    outcome={"enum": ["within", "over", "not enforced", None]},
    reason=TEXT,
    metric={"enum": list(METRICS)},
    backend=TEXT,
    device=TEXT,
    shape={"type": "object", "additionalProperties": NUMBER},
    budget=TEXT,
    limit_bytes=MAYBE,
    peak_bytes=MAYBE,
    allocated_bytes=MAYBE,
    reserved_bytes=MAYBE,
    retained_bytes=MAYBE,
    baseline_bytes=MAYBE,
    workspace_bytes=NUMBER,
    allocations=NUMBER,
    duration_s={"type": "number"},
    held={"type": "array", "items": HELD},
)
ENVIRONMENT: dict[str, Any] = {
    "type": "object",
    "required": ["python", "torch", "cuda", "device", "compute_capability", "allocator"],
}
SCHEMA = exactly(
    schema={"const": 1},
    environment=ENVIRONMENT,
    results={"type": "array", "items": RESULT},
    growth={"type": "array"},
    summary=exactly(
        budgets=NUMBER,
        within=NUMBER,
        over=NUMBER,
        not_enforced=NUMBER,
        measured=NUMBER,
        session_peak_bytes=MAYBE,
    ),
)

OVER = Record(
    "a.py::test[é]",
    outcome=Outcome.OVER,
    reason="peak 2.0 KiB exceeds budget 1.0 KiB (2.0x) on cpu",
    backend="cpu",
    device="cpu",
    shape={"B": 1, "N": 64},
    budget="16*N",
    limit_bytes=1024,
    peak_bytes=2048,
    allocated_bytes=2048,
    retained_bytes=0,
    workspace_bytes=512,
    allocations=2,
    duration_s=0.25,
    held=(Held(2048, (8, 64), "float32", "mm", "attn.py:3", "attention"),),
)
RECORDS = (
    OVER,
    Record("b.py::test", outcome=Outcome.NOT_ENFORCED, reason="skipped: no GPU"),
    replace(OVER, nodeid="b.py::test", region="scores", outcome=None, reason="", budget=""),
)


def written(tmp_path: Path, data: object) -> Path:
    path = tmp_path / "out.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


def file() -> dict[str, Any]:
    """A file as it is written, as data to change."""
    data: dict[str, Any] = json.loads(render(summarise(RECORDS), describe()))
    return data


def test_the_file_is_of_its_schema() -> None:
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(file())


def test_what_was_really_measured_is_of_the_schema() -> None:
    rows: list[Record] = []
    instrument = ready("cpu")

    def keep(
        name: str, verdict: Verdict | None, measured: Measurement, shape: AttentionShape
    ) -> Verdict | None:
        rows.append(record("a.py::test", name, verdict, measured, shape.symbols))
        return verdict

    memory = AttnMem(lambda name: instrument, keep=keep)
    q, k, v = memory.qkv(1, 2, 8, 4)
    with memory.region("scores", "B*H*N*M*itemsize") as region:
        _ = q @ k.mT
    with pytest.raises(BudgetExceeded):
        memory.check(memory.measure(lambda: q @ k.mT @ v), 1)
    data = json.loads(render(summarise(rows), describe()))
    jsonschema.validate(data, SCHEMA)
    check, scores = data["results"]
    assert [tensor["shape"] for tensor in check["held"]] == [[2, 8, 8], [2, 8, 4]]
    assert region.measurement is not None
    assert scores["peak_bytes"] == region.measurement.peak_bytes == scores["limit_bytes"]


@pytest.mark.parametrize("where", ["results", "summary", "environment"])
def test_the_schema_would_notice_a_key_that_is_missing(where: str) -> None:
    data = file()
    part = data[where][0] if where == "results" else data[where]
    del part[next(iter(part))]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


def test_a_session_that_measured_nothing_is_of_the_schema() -> None:
    data = json.loads(render(summarise([]), describe()))
    jsonschema.validate(data, SCHEMA)
    assert data["summary"]["session_peak_bytes"] is None


def test_the_summary_adds_up() -> None:
    assert file()["summary"] == {
        "budgets": 2,
        "within": 0,
        "over": 1,
        "not_enforced": 1,
        "measured": 1,
        "session_peak_bytes": 2048,
    }


def test_results_are_sorted_by_test_and_region() -> None:
    text = render(summarise(reversed(RECORDS)), {})
    assert text == render(summarise(RECORDS), {})
    assert [row["region"] for row in json.loads(text)["results"]] == ["", "", "scores"]


def test_the_file_reads_back(tmp_path: Path) -> None:
    environment = describe()
    path = written(tmp_path, render(summarise(RECORDS), environment))
    assert load(path) == (RECORDS, environment)


@pytest.mark.parametrize("name", ["test[\udc80]", "test[\x00\n\u2028]", "test[é✓]"], ids=ascii)
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    rows = (replace(OVER, nodeid=name),)
    path = written(tmp_path, render(summarise(rows), {}))
    assert load(path)[0] == rows


@pytest.mark.parametrize("schema", [1, 1.0, 1.1, 1.9])
def test_a_newer_minor_is_read(tmp_path: Path, schema: float) -> None:
    data = {**file(), "schema": schema, "energy": {"unit": "J"}}
    data["results"][0]["energy"] = 3
    assert load(written(tmp_path, data))[0] == RECORDS


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (2, "2"),
        (0.9, "0.9"),
        (None, "None"),
        ("1", "'1'"),
        (True, "True"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ([1], "[1]"),
        ("x" * 99, f"'{'x' * 61}...'"),
    ],
    ids=lambda value: str(value)[:9],
)
def test_another_schema_is_refused(tmp_path: Path, schema: object, shown: str) -> None:
    path = written(tmp_path, {**file(), "schema": schema})
    with pytest.raises(AttnMemError) as error:
        load(path)
    assert str(error.value) == (f"cannot read {path}: its schema is {shown}, this version reads 1")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"results": None}, "'results' is no list or 'environment' no object"),
        ({"results": {"a": 1}}, "'results' is no list or 'environment' no object"),
        ({"environment": "ab"}, "'results' is no list or 'environment' no object"),
        ({"results": [3]}, "not a record of attnmem: TypeError argument of type 'int' is not"),
        ({"results": [{}]}, "not a record of attnmem: KeyError 'outcome'"),
    ],
    ids=["no results", "an object", "text", "a number", "an empty row"],
)
def test_a_file_of_other_content_is_refused(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    path = written(tmp_path, {**file(), **changes})
    with pytest.raises(AttnMemError) as error:
        load(path)
    assert str(error.value).startswith(f"cannot read {path}: {why}")


@pytest.mark.parametrize("name", ["results", "environment"])
def test_a_file_that_lacks_a_part_is_refused(tmp_path: Path, name: str) -> None:
    data = file()
    del data[name]
    path = written(tmp_path, data)
    with pytest.raises(AttnMemError) as error:
        load(path)
    assert str(error.value) == f"cannot read {path}: it lacks '{name}'"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ('{"schema": 1', "Expecting ',' delimiter: line 1 column 13 (char 12)"),
        ("[]", "its schema is None, this version reads 1"),
        ("3", "its schema is None, this version reads 1"),
    ],
    ids=["empty", "cut off", "a list", "a number"],
)
def test_what_is_no_file_of_ours_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(AttnMemError) as error:
        load(path)
    assert str(error.value) == f"cannot read {path}: {why}"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(AttnMemError, match=r"^cannot read .*out\.json: 'utf-8' codec can't decode"):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(AttnMemError) as error:
        load(path)
    assert str(error.value) == (
        f"cannot read {path}: [Errno 2] No such file or directory: '{path}'"
    )
