"""Checks of values that are read from JSON, made from the annotations of a dataclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from sys import float_info
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ..formulas.exact_arithmetic import MAX_BITS
from ..units import shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Made = TypeVar("_Made")

Check = Callable[[Any], bool]
"""Returns True if a report can print the value, once it is read."""


def check_of(annotation: Any) -> Check:
    """Returns the check of the values that the annotation allows.

    Of a dataclass, the fields are checked apart.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if type(None) in arguments:
        (other,) = (check_of(argument) for argument in arguments if argument is not type(None))
        return lambda value: value is None or other(value)
    if origin is tuple:
        part = check_of(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(part, value))
    if origin is Mapping:
        part = check_of(arguments[1])
        return lambda value: isinstance(value, dict) and all(map(part, value.values()))
    if annotation is Any:
        return lambda value: True
    if annotation in (int, float):
        return _is_int if annotation is int else _is_float
    return lambda value: isinstance(value, annotation)


class JsonField(NamedTuple):
    """A field of a dataclass that is read from JSON."""

    name: str
    key: str
    """The name in JSON."""
    annotation: str
    hint: Any
    """The annotation, evaluated."""
    has_default: bool
    fits: Check


def json_fields(
    kind: type[DataclassInstance], keys: Mapping[str, str] = MappingProxyType({})
) -> tuple[JsonField, ...]:
    """Returns the fields of a dataclass, in their order; ``keys`` has those of another name.

    A field that ``repr`` leaves out is not written to JSON either.
    """
    hints = get_type_hints(kind)
    return tuple(
        JsonField(
            part.name,
            keys.get(part.name, part.name),
            str(part.type),
            hints[part.name],
            part.default is not MISSING or part.default_factory is not MISSING,
            check_of(hints[part.name]),
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
        if not field.fits(value):
            raise ValueError(f"{field.key}={shown(value)} is not of type {field.annotation}")
    return made


def made_of(kind: type[_Made], data: Mapping[str, Any]) -> _Made:
    """Returns the dataclass of JSON values, with the dataclasses and tuples in it.

    Names that it has no field for are passed over: a newer version may have written them.

    Raises:
        KeyError, TypeError, ValueError: the values do not fit its fields.
    """
    by = json_fields(kind)  # type: ignore[arg-type]
    given = {
        field.name: _read(field.hint, data[field.name])
        for field in by
        if field.name in data or not field.has_default
    }
    return checked(kind(**given), by)


def _read(annotation: Any, value: Any) -> Any:
    arguments = get_args(annotation)
    if type(None) in arguments and value is not None:
        return _read(next(one for one in arguments if one is not type(None)), value)
    if get_origin(annotation) is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], one) for one in value)
    if value is not None and isinstance(annotation, type) and is_dataclass(annotation):
        return made_of(annotation, value)
    return value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not abs(value) >> MAX_BITS


def _is_float(value: object) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and _is_int(value) and abs(value) <= float_info.max
    )
