"""The file of a verification: what was measured on a device, and what stood beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..contents import contents
from ..errors import AttnMemError
from ..units import excerpt, shown
from .comparison import Peaks, Row, read_peaks
from .device_facts import Facts

SCHEMA: Final = 1
#: A file of this command has some 30 KB.
_MOST_BYTES: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of one run of ``attnmem verify``."""

    reference: str
    """The backend that the others are held to: ``cuda``, or ``null`` without a GPU."""
    profile: str
    """The profile that stands for the device."""
    versions: Mapping[str, str | None]
    device: Facts
    """The facts that CUDA reports."""
    expected: Facts
    """The same facts of the profile."""
    rows: Sequence[Row] = field(default_factory=tuple)
    complete: bool = True
    """False if an interrupt or the limit of time ended it before its last workload."""


def render(found: Verification) -> str:
    """Returns the text of the file."""
    head = {
        "schema": SCHEMA,
        "reference": found.reference,
        "profile": found.profile,
        "versions": dict(found.versions),
        "device": dict(found.device),
        "expected": dict(found.expected),
        "complete": found.complete,
    }
    lines = [
        f"  {json.dumps({'name': row.name, **{b: p.as_json() for b, p in row.found.items()}})}"
        for row in found.rows
    ]
    body = ",\n".join(lines)
    return f'{json.dumps(head, indent=1)[:-2]},\n "workloads": [\n{body}\n ]\n}}\n'


def read(path: Path) -> Verification:
    """Returns the verification in a file.

    Raises:
        AttnMemError: the file cannot be read, or is no file of this command.
    """
    try:
        raw = contents(path)
        if len(raw) > _MOST_BYTES:
            raise AttnMemError(f"cannot read {path}: it has {len(raw)} B, more than {_MOST_BYTES}")
        data = json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or shown(error)
        raise AttnMemError(f"cannot read {path}: {why}") from error
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        wanted = f"expected the file that attnmem verify writes, schema {SCHEMA}"
        raise AttnMemError(f"cannot read {path}: it is {shown(data)}; {wanted}")
    try:
        return _verification(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AttnMemError(f"cannot read {path}: {shown(error)} is missing or malformed") from error
    except AttnMemError as error:
        raise AttnMemError(f"cannot read {path}: {error}") from error


def _verification(data: Mapping[str, Any]) -> Verification:
    reference = _text(data["reference"])
    rows = []
    for one in data["workloads"]:
        name = _text(one["name"])
        found = {key: read_peaks(one[key], f"{name} on {key}") for key in one if key != "name"}
        if next(iter(found), None) != reference:
            raise AttnMemError(f"{name} does not begin with {reference}, its reference")
        rows.append(Row(name, found))
    return Verification(
        reference,
        _text(data["profile"]),
        {
            name: None if value is None else str(value)
            for name, value in _facts(data["versions"]).items()
        },
        _facts(data["device"]),
        _facts(data["expected"]),
        tuple(rows),
        data["complete"] is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{shown(value)} is not a name")
    return excerpt(value, 200)


def _facts(values: Mapping[str, Any]) -> dict[str, int | str | None]:
    """Returns facts; numbers have at most 64 bits."""
    found: dict[str, int | str | None] = {}
    for name, value in values.items():
        number = type(value) is int and abs(value) < 1 << 63
        if not (number or value is None or isinstance(value, str)):
            raise ValueError(f"{name} is {shown(value)}")
        found[name] = excerpt(value, 200) if isinstance(value, str) else value
    return found


class Recorded:
    """The reference of a file, in the place of a backend that measures."""

    def __init__(self, found: Verification) -> None:
        self._peaks = {row.name: row.reference for row in found.rows}
        self._asked = ""

    def ask(self, name: str, until: float) -> str:
        """Notes the workload."""
        self._asked = name
        return ""

    def answer(self, until: float) -> Peaks:
        """Returns the recorded peaks."""
        return self._peaks.get(self._asked, Peaks(problem="not in the recording"))
