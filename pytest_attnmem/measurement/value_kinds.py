"""Objects whose state is one value: generators of random numbers, arrays, and buffers of bytes."""

from __future__ import annotations

import array
import contextvars
import io
import random
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .state_kinds import Items, Kind

#: The most bytes of an array that are copied.
_MOST_BYTES: Final = 64 << 20


class Value(NamedTuple):
    """A value that is not searched for further state."""

    of: Any


def value_kind(found: Any) -> Kind | None:
    """Returns how an object is read and written whose state is one value; else None."""
    for base, kind in _OF_TYPES:
        if isinstance(found, base):
            return kind
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and type(found) is numpy.ndarray:
        return _ARRAY if found.nbytes <= _MOST_BYTES and found.flags.writeable else None
    if type(found).__module__.startswith("numpy.random"):
        return next((kind for name, kind in _OF_NUMPY if hasattr(found, name)), None)
    torch: Any = sys.modules.get("torch")
    generator = getattr(torch, "Generator", None)
    if generator is not None and type(found) is generator:
        return _one(lambda own: own.get_state(), lambda own, state: own.set_state(state))
    return None


def _one(read: Callable[[Any], Any], write: Callable[[Any, Any], object]) -> Kind:
    def write_items(found: Any, items: Items) -> None:
        for _, value in items:
            write(found, value.of)

    return Kind(lambda found: [("", Value(read(found)))], write_items)


def _set_slice(found: Any, value: Any) -> None:
    found[:] = value


def _write_array(found: Any, value: Any) -> None:
    found[...] = value


def _write_stream(found: Any, state: tuple[Any, int]) -> None:
    text, place = state
    found.seek(0)
    found.truncate()
    found.write(text)
    found.seek(place)


def _write_variable(found: contextvars.ContextVar[Any], items: Items) -> None:
    for _, value in items:
        found.set(value)


def _read_variable(found: contextvars.ContextVar[Any]) -> Items:
    value = found.get(_UNSET)
    return [] if value is _UNSET else [("", value)]


_UNSET: Final = object()
_ARRAY: Final = _one(lambda found: found.copy(), _write_array)
_STATE: Final = _one(lambda found: found.getstate(), lambda found, state: found.setstate(state))
_STREAM: Final = _one(lambda found: (found.getvalue(), found.tell()), _write_stream)
_OF_TYPES: Final[tuple[tuple[Any, Kind | None], ...]] = (
    (random.SystemRandom, None),
    (random.Random, _STATE),
    (bytearray, _one(bytes, _set_slice)),
    (array.array, _one(lambda found: found[:], _set_slice)),
    ((io.StringIO, io.BytesIO), _STREAM),
    (contextvars.ContextVar, Kind(_read_variable, _write_variable)),
)
#: The generators of NumPy, by what they have.
_OF_NUMPY: Final = (
    ("set_state", _one(lambda own: own.get_state(), lambda own, state: own.set_state(state))),
    (
        "bit_generator",
        _one(
            lambda own: own.bit_generator.state,
            lambda own, state: setattr(own.bit_generator, "state", state),
        ),
    ),
)
