"""The shipped JSON Schema: files that we write conform to it, and other files do not."""

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from runpy import run_path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_rows import KeptRows

from pytest_attnmem.api.attnmem import AttnMem
from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.baselines.entries import State
from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.errors import BudgetExceeded
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record, record

from .rows import RECORDS, WHOLE, file, records

WRITTEN = files("pytest_attnmem.report").joinpath("schema.json").read_text("utf-8")
SCHEMA: dict[str, Any] = json.loads(WRITTEN)


def closed(schema: Any) -> Any:
    """Returns the schema without room for unknown keys, because it lists each key that we write."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        parts["unevaluatedProperties"] = False
    return parts


#: ``held`` is also a part of a timeline's span, so it is closed only where it stands alone.
CLOSED = closed(SCHEMA)
del CLOSED["$defs"]["held"]["unevaluatedProperties"]
CLOSED["$defs"]["result"]["properties"]["held"]["items"]["unevaluatedProperties"] = False
EXACTLY = jsonschema.Draft202012Validator(CLOSED)


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The script that writes the schema."""
    return run_path(str(Path(__file__).parents[2] / "benchmarks" / "schema.py"))


def test_the_schema_is_current(script: dict[str, Any]) -> None:
    assert script["text"](script["updated"](json.loads(WRITTEN))) + "\n" == WRITTEN


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (int | None, {"type": ["integer", "null"]}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
        (Outcome | None, {"enum": ["within", "over", "not enforced", None]}),
        (Held | None, {"anyOf": [{"$ref": "#/$defs/held"}, {"type": "null"}]}),
    ],
    ids=str,
)
def test_an_annotation_states_the_schema(
    script: dict[str, Any], annotation: Any, schema: dict[str, Any]
) -> None:
    assert script["of_annotation"](annotation) == schema


def test_a_new_field_of_a_result_is_in_the_schema(script: dict[str, Any]) -> None:
    older = json.loads(WRITTEN)
    del older["$defs"]["result"]["properties"]["reason"]
    del older["$defs"]["timeline"]["properties"]["spans"]
    older["$defs"]["held"]["required"].remove("bytes")
    assert script["updated"](older) == SCHEMA


def test_the_schema_is_one_and_files_are_of_it() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator.check_schema(CLOSED)
    states = [replace(WHOLE, baseline_state=state) for state in ("", *(one.value for one in State))]
    for rows in (RECORDS, [], *([row] for row in states)):
        assert [*EXACTLY.iter_errors(file(rows))] == []
    assert file([])["summary"]["session_peak_bytes"] is None


def test_every_key_is_in_the_schema() -> None:
    data = file([WHOLE])
    for name, keys in {
        "result": data["results"][0],
        "held": data["results"][0]["held"][0],
        "timeline": data["results"][0]["timeline"],
        "growth": data["growth"][0],
        "summary": data["summary"],
    }.items():
        assert set(keys) == set(SCHEMA["$defs"][name]["properties"])
    assert set(data["environment"]) <= set(SCHEMA["$defs"]["environment"]["properties"])


@settings(deadline=None)  # the machine may be busy
@given(st.lists(records, max_size=3))
def test_any_rows_are_of_the_schema(rows: list[Record]) -> None:
    assert [*EXACTLY.iter_errors(file(rows))] == []


@pytest.mark.parametrize("minor", [1, 1.1, 1.9])
def test_a_newer_minor_is_of_the_schema(minor: float) -> None:
    data = {**file(), "schema": minor, "energy": {"unit": "J"}}
    data["results"][0]["energy"] = 3
    data["summary"]["energy"] = 3
    assert [*jsonschema.Draft202012Validator(SCHEMA).iter_errors(data)] == []
    assert [*EXACTLY.iter_errors(data)] != []


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (("schema",), 2),
        (("environment", "torch"), 2),
        (("results", 0, "outcome"), "fine"),
        (("results", 0, "peak_bytes"), 1.5),
        (("results", 0, "shape"), {"N": "64"}),
        (("results", 0, "timeline"), []),
        (("results", 0, "timeline", "spans", 0, "born"), None),
        (("results", 0, "held", 0, "bytes"), "64 MiB"),
        (("growth", 0, "peaks"), None),
        (("summary", "over"), -1),
    ],
    ids=lambda part: str(part),
)
def test_the_schema_would_notice_a_value_that_is_wrong(where: tuple[Any, ...], wrong: Any) -> None:
    data = file([WHOLE])
    jsonschema.validate(data, SCHEMA)
    part = data
    for name in where[:-1]:
        part = part[name]
    part[where[-1]] = wrong
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


def test_what_was_really_measured_is_of_the_schema() -> None:
    primed = open_primed("cpu")
    kept = KeptRows()
    memory = AttnMem(lambda name: primed, rows=kept)
    q, k, v = memory.qkv(1, 2, 8, 4)
    with memory.region("scores", "B*H*N*M*itemsize") as region:
        _ = q @ k.mT
    with pytest.raises(BudgetExceeded):
        memory.check(memory.measure(lambda: q @ k.mT @ v), 1)
    data = file(
        record("a.py::test", part.name, verdict, measurement, part.shape.symbols)
        for part, verdict, measurement in kept.rows
    )
    EXACTLY.validate(data)
    check, scores = data["results"]
    assert [tensor["shape"] for tensor in check["held"]] == [[2, 8, 8], [2, 8, 4]]
    assert scores["peak_bytes"] == region.measurement.peak_bytes == scores["limit_bytes"]


@pytest.mark.parametrize("where", ["results", "summary", "environment"])
def test_the_schema_would_notice_a_key_that_is_missing(where: str) -> None:
    data = file()
    part = data[where][0] if where == "results" else data[where]
    del part[next(iter(part))]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)
