"""Types of JSON values: the check of a value and its JSON Schema, both made from an annotation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from sys import float_info
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ..formulas.exact_arithmetic import MAX_BITS
from ..units import shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class JsonType:
    """A type of values that a JSON file may hold in one place."""

    fits: Callable[[Any], bool]
    """Returns True if a report can print the value, once it is read."""
    schema: Mapping[str, Any]


def json_type(annotation: Any) -> JsonType:
    """Returns the type of the values that the annotation allows.

    A dataclass is a reference to the definition of its name; its own fields are checked apart.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if type(None) in arguments:
        (other,) = (argument for argument in arguments if argument is not type(None))
        return _or_null(json_type(other))
    if origin is tuple:
        part = json_type(arguments[0])
        return JsonType(
            lambda value: isinstance(value, tuple) and all(map(part.fits, value)),
            {"type": "array", "items": part.schema},
        )
    if origin is Mapping:
        part = json_type(arguments[1])
        return JsonType(
            lambda value: isinstance(value, dict) and all(map(part.fits, value.values())),
            {"type": "object", "additionalProperties": part.schema},
        )
    if annotation is Any:
        return JsonType(lambda value: True, {})
    if issubclass(annotation, Enum):
        return JsonType(_instance_of(annotation), {"enum": [each.value for each in annotation]})
    if isinstance(annotation, type) and is_dataclass(annotation):
        reference = f"#/$defs/{annotation.__name__.lower()}"
        return JsonType(_instance_of(annotation), {"$ref": reference})
    fits, name = {
        str: (_instance_of(str), "string"),
        bool: (_instance_of(bool), "boolean"),
        int: (_is_int, "integer"),
        float: (_is_float, "number"),
    }[annotation]
    return JsonType(fits, {"type": name})


class JsonField(NamedTuple):
    """A field of a dataclass that is read from JSON."""

    name: str
    key: str
    """The name in JSON."""
    annotation: str
    type: JsonType


def json_fields(
    kind: type[DataclassInstance], keys: Mapping[str, str] = MappingProxyType({})
) -> tuple[JsonField, ...]:
    """Returns the fields of a dataclass, in their order; ``keys`` has those of another name.

    A field that ``repr`` leaves out is not written to JSON either.
    """
    hints = get_type_hints(kind)
    return tuple(
        JsonField(
            part.name, keys.get(part.name, part.name), str(part.type), json_type(hints[part.name])
        )
        for part in fields(kind)
        if part.repr
    )


def checked(made: _Made, by: Iterable[JsonField]) -> _Made:
    """Returns the object, which was read from JSON, after a check of its fields.

    Raises:
        ValueError: a value is not of the type of its field.
    """
    for field in by:
        value = getattr(made, field.name)
        if not field.type.fits(value):
            raise ValueError(f"{field.key}={shown(value)} is not of type {field.annotation}")
    return made


def _or_null(kind: JsonType) -> JsonType:
    match kind.schema:
        case {"enum": values}:
            schema: dict[str, Any] = {"enum": [*values, None]}
        case {"type": name}:
            schema = {**kind.schema, "type": [name, "null"]}
        case _:
            schema = {"anyOf": [kind.schema, {"type": "null"}]}
    return JsonType(lambda value: value is None or kind.fits(value), schema)


def _instance_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not abs(value) >> MAX_BITS


def _is_float(value: object) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and _is_int(value) and abs(value) <= float_info.max
    )
