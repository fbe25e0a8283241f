"""The JSON Schema of the JSON file: generates the definitions of results from their dataclasses.

``python benchmarks/schema.py`` updates ``schema.json``, in which all other parts are written by
hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin, get_type_hints

from pytest_attnmem import report
from pytest_attnmem.baselines.entries import State
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.measurement import METRICS
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.json_types import json_fields
from pytest_attnmem.report.record import JSON_NAMES, NAMED_BY_OP, Record

PATH: Final = Path(str(report.__file__)).with_name("schema.json")

_NARROW: Final = 100

#: Facts about a field that its annotation does not state.
_REMARKS: Final[Mapping[tuple[type, str], Mapping[str, Any]]] = MappingProxyType(
    {
        (Record, "region"): {"description": "Empty for the test's body."},
        (Record, "outcome"): {"description": "null: the row has no budget."},
        (Record, "metric"): {"enum": [*METRICS]},
        (Record, "shape"): {"description": "Symbol to size."},
        (Record, "budget"): {"description": "The limit or contract, as it is written."},
        **{(Record, f"{name}_bytes"): {"description": "null: not measured."} for name in METRICS},
        (Record, "baseline_state"): {
            "description": "Empty without a baseline.",
            "enum": ["", *(state.value for state in State)],
        },
        (Record, "baseline_torch"): {
            "description": "The other version of torch that baseline_bytes are of; or empty."
        },
        (Record, "explanation"): {
            "description": "The lines of a failure between its reason and its tensors."
        },
        (Record, "held"): {"description": "The tensors allocated at the peak, largest first."},
        (Record, "where"): {"description": "The test: its file from the rootdir, and its line."},
        (Record, "out_of_memory"): {
            "description": "The bytes requested when memory ran out; empty: it did not run out."
        },
        (Record, "expected"): {"description": "The test failed as it was expected to (xfail)."},
        (Held, "op"): {"description": "The operator that allocated the tensor."},
        (Held, "where"): {"description": "The line that called the operator."},
        (Held, "module"): {
            "description": "The nn.Module that ran, as its root names it; empty: none or unknown."
        },
        (Held, "role"): {
            "description": "Empty: none or unknown.",
            "enum": ["", "parameter", "gradient", "optimizer", "saved", "backward"],
        },
        (Held, "dims"): {
            "description": "The shape in the symbols of the test, proved at other sizes; or empty."
        },
        (Held, "by"): {
            "description": "The line of a library that `where` called; empty: none or unknown."
        },
        (Held, "holder"): {
            "description": "Who holds the tensor: `Loop.outputs[3]`; empty: unknown."
        },
        (Timeline, "events"): {"minimum": 0},
        (Allocation, "allocated_at"): {"minimum": 0},
        (Allocation, "freed_at"): {"description": "null: still allocated at the end."},
    }
)

#: The fields that a file of version 1.0 may lack.
_LATER: Final = frozenset(
    {
        *((Record, name) for name in ("baseline_state", "where", "timeline", "out_of_memory")),
        *((Record, name) for name in ("expected", "baseline_torch", "explanation")),
        *((Held, name) for name in ("function", "module", "role", "dims", "by", "holder")),
    }
)


def updated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema with new definitions of results, held tensors and timelines."""
    definitions = schema["$defs"]
    span = {"allOf": [{"$ref": "#/$defs/held"}], **_object(Allocation, "held")}
    timeline = _object(Timeline)
    timeline["properties"]["spans"]["items"] = span
    made = {
        "result": _object(Record, "growth"),  # a section of the file has it
        "held": _object(Held, *NAMED_BY_OP),
        "timeline": timeline,
    }
    made = {
        name: {"description": definitions[name]["description"], **part}
        for name, part in made.items()
    }
    return {**schema, "$defs": {**definitions, **made}}


def text(schema: Any, indent: str = "") -> str:
    """Returns the schema as JSON, with each part that fits on one line."""
    line = json.dumps(schema)
    if len(indent) + len(line) < _NARROW or not isinstance(schema, (dict, list)):
        return line
    inner = f"{indent}  "
    if isinstance(schema, list):
        parts = [text(part, inner) for part in schema]
        begin, end = "[", "]"
    else:
        parts = [f"{json.dumps(name)}: {text(part, inner)}" for name, part in schema.items()]
        begin, end = "{", "}"
    lines = ",\n".join(f"{inner}{part}" for part in parts)
    return f"{begin}\n{lines}\n{indent}{end}"


def of_annotation(annotation: Any) -> dict[str, Any]:
    """Returns the schema of the values that the annotation of a field allows.

    A dataclass is a reference to the definition of its name.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if type(None) in arguments:
        (other,) = (argument for argument in arguments if argument is not type(None))
        return _or_null(of_annotation(other))
    if origin is tuple:
        return {"type": "array", "items": of_annotation(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": of_annotation(arguments[1])}
    if annotation is Any:
        return {}
    if issubclass(annotation, Enum):
        return {"enum": [each.value for each in annotation]}
    if is_dataclass(annotation):
        return {"$ref": f"#/$defs/{annotation.__name__.lower()}"}
    return {"type": {str: "string", bool: "boolean", int: "integer", float: "number"}[annotation]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    match schema:
        case {"enum": values}:
            return {"enum": [*values, None]}
        case {"type": name}:
            return {**schema, "type": [name, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def _object(kind: Any, *without: str) -> dict[str, Any]:
    properties, required, hints = {}, [], get_type_hints(kind)
    for field in json_fields(kind, JSON_NAMES):
        if field.name not in without:
            remarks = _REMARKS.get((kind, field.name), {})
            properties[field.key] = {**of_annotation(hints[field.name]), **remarks}
            required += [] if (kind, field.name) in _LATER else [field.key]
    return {"type": "object", "properties": properties, "required": required}


if __name__ == "__main__":
    PATH.write_text(text(updated(json.loads(PATH.read_text("utf-8")))) + "\n", "utf-8")
