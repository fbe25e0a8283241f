"""The check and the JSON Schema of each annotation that a field of a report may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.formulas.exact_arithmetic import MAX_BITS
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.json_types import checked, json_fields, json_type

LARGEST = 2**MAX_BITS - 1
HELD = Held(64, (2, 8), "float32", "mm", "attn.py:3")

TYPES: list[tuple[Any, dict[str, Any], list[object], list[object]]] = [
    (str, {"type": "string"}, ["", "\ud800"], [None, 3, b"a"]),
    (bool, {"type": "boolean"}, [True, False], [0, "true", None]),
    (int, {"type": "integer"}, [0, -3, LARGEST], [LARGEST + 1, 1.0, "1", None]),
    (float, {"type": "number"}, [0.5, 3], [10**400, "1", None]),
    (int | None, {"type": ["integer", "null"]}, [None, 3], ["", 1.5]),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [(), (1,)], [[1], (1.5,)]),
    (
        Mapping[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        [{}, {"N": 3}],
        [{"N": None}, ["N"]],
    ),
    (Mapping[str, Any], {"type": "object", "additionalProperties": {}}, [{"N": []}], [3]),
    (
        Outcome | None,
        {"enum": ["within", "over", "not enforced", None]},
        [Outcome.OVER, None],
        ["over"],
    ),
    (Held, {"$ref": "#/$defs/held"}, [HELD], [None, {}]),
    (Held | None, {"anyOf": [{"$ref": "#/$defs/held"}, {"type": "null"}]}, [HELD, None], [{}]),
]


@pytest.mark.parametrize(("annotation", "schema", "right", "wrong"), TYPES, ids=lambda part: "")
def test_an_annotation_states_the_check_and_the_schema(
    annotation: Any, schema: dict[str, Any], right: list[object], wrong: list[object]
) -> None:
    made = json_type(annotation)
    assert made.schema == schema
    assert [value for value in right if not made.fits(value)] == []
    assert [value for value in wrong if made.fits(value)] == []


@dataclass
class Point:
    """A class with fields to check."""

    size: int
    name: str = ""


def test_a_checked_object_is_returned() -> None:
    point = Point(3, "a")
    assert checked(point, json_fields(Point)) is point


def test_the_message_names_the_field_its_value_and_its_type() -> None:
    with pytest.raises(ValueError, match=r"^name=3 is not of type str$"):
        checked(Point(3, 3), json_fields(Point))  # type: ignore[arg-type]


def test_the_fields_are_in_the_order_of_the_class() -> None:
    assert [field.name for field in json_fields(Point)] == ["size", "name"]
