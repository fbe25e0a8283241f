"""The results of a sweep: its rows, and the JSON file that holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ..contents import json_of
from ..errors import AttnMemError
from ..measurement.peak_components import Component
from ..report.json_types import check_of, made_of
from ..units import shown

SCHEMA: Final = 1
#: Marks a JSON file as the file of a sweep.
KIND: Final = "attnmem sweep"

#: The status of a row.
OK, OOM, ERROR, UNMEASURED = "ok", "OOM", "error", "unmeasured"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one case. Bytes are of the whole device, workspaces of libraries included."""

    kernel: str
    B: int
    H: int
    N: int
    d: int
    dtype: str
    causal: bool
    backward: bool
    status: str
    by: str
    """``measured``, ``simulated``, ``by growth`` from smaller lengths, or ``by the model``."""
    reason: str = ""
    """The reason why numbers are missing, in one line."""
    forward_ms: float | None = None
    backward_ms: float | None = None
    before_bytes: int | None = None
    """Alive when the backward pass begins."""
    peak_bytes: int | None = None
    """Alive at the peak; out of memory, the peak on a device with enough memory, if known."""
    reserved_bytes: int | None = None
    """The most memory reserved from the device, fragmentation included."""
    workspace_bytes: int = 0
    components: tuple[Component, ...] = ()
    """The components of the peak, if requested."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The case that the row belongs to."""
        return (self.kernel, self.d, self.N)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rows of a sweep, its parameters and its environment."""

    parameters: Mapping[str, Any]
    environment: Mapping[str, Any]
    rows: tuple[Row, ...]
    complete: bool = True
    longest: tuple[Mapping[str, Any], ...] = ()
    """Empty unless requested: ``kernel``, ``d``, and the longest ``N`` that fits the device."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, in the order of the rows."""
        return tuple(dict.fromkeys(row.kernel for row in self.rows))

    def lines(self) -> dict[tuple[str, int], tuple[Row, ...]]:
        """Returns the rows of each kernel and width, sorted by length."""
        found: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.kernel, row.d), []).append(row)
        return {key: tuple(sorted(rows, key=lambda row: row.N)) for key, rows in found.items()}


def render(sweep: Sweep) -> str:
    """Returns the text of the JSON file."""
    data = {
        "schema": SCHEMA,
        "kind": KIND,
        "parameters": dict(sweep.parameters),
        "environment": dict(sweep.environment),
        "complete": sweep.complete,
        "rows": [asdict(row) for row in sweep.rows],
        "longest": [dict(found) for found in sweep.longest],
    }
    return json.dumps(data, indent=1) + "\n"


def load(path: Path) -> Sweep:
    """Returns the sweep in a file.

    Raises:
        AttnMemError: the file cannot be read, or is not a sweep that this version reads.
    """
    data = json_of(path)
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise AttnMemError(f"cannot read {path}: it is not a JSON file of attnmem sweep")
    if (schema := data.get("schema")) != SCHEMA:
        raise AttnMemError(
            f"cannot read {path}: its schema is {shown(schema)}, this version reads {SCHEMA}"
        )
    try:
        return Sweep(
            _parameters(dict(data["parameters"])),
            dict(data["environment"]),
            tuple(_row(row) for row in data["rows"]),
            bool(data["complete"]),
            tuple(dict(found) for found in data["longest"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AttnMemError(f"cannot read {path}: {shown(error, 120)}") from error


def _row(data: Mapping[str, Any]) -> Row:
    row = made_of(Row, data)
    for name in ("N", "d", "B", "H"):
        if type(data[name]) is not int:  # True would pass for one
            raise ValueError(f"{name} is {shown(data[name])}")
    return row


def _parameters(data: Mapping[str, Any]) -> dict[str, Any]:
    room = data.get("memory_bytes")
    if not check_of(int | None)(room):
        raise ValueError(f"memory_bytes={shown(room)} is not of type int | None")
    return {**data, **{name: data[name] for name in ("batch", "heads", "dtype", "device")}}
