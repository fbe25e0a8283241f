"""A row of the report, and the one form in which it travels: to the controller, JUnit and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from sys import float_info
from types import MappingProxyType
from typing import Any, TypeVar

from ..budgets.growth_fit import Growth
from ..budgets.verdict import Outcome, Verdict
from ..errors import AttnMemError
from ..formulas.exact_arithmetic import MAX_BITS
from ..measurement.held import SCRATCH_SUFFIX, Held
from ..measurement.measurement import METRICS, Measurement
from ..measurement.timeline import Span, Timeline
from ..units import excerpt, shown

_Made = TypeVar("_Made", "Record", Held, Span, Timeline)


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one budget, or of one region that was only measured."""

    nodeid: str
    region: str = ""
    outcome: Outcome | None = None
    """``None``: measured, and held to nothing; not even measured, where there is a reason."""
    reason: str = ""
    metric: str = "peak"
    backend: str = ""
    device: str = ""
    shape: Mapping[str, int] = field(default_factory=dict)
    budget: str = ""
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    retained_bytes: int | None = None
    baseline_bytes: int | None = None
    baseline_state: str = ""
    """``new``, ``same``, ``regressed`` or ``improved``; empty where there is no baseline."""
    workspace_bytes: int = 0
    allocations: int = 0
    duration_s: float = 0.0
    held: tuple[Held, ...] = ()
    where: str = ""
    """The test: its file from the rootdir, and its line."""
    timeline: Timeline | None = None
    """Who was alive when, where a report or an artifact was asked for that shows it."""
    out_of_memory: str = ""
    """The bytes asked for when memory ran out; then no size is that of the whole body."""
    expected: bool = False
    """True if the test failed as it was expected to (``xfail``); the row then fails nothing."""
    growth: tuple[Mapping[str, Any], ...] = ()
    """What was measured at other sizes: ``{"sizes": {"N": […]}, "peaks": […], "formula": …}``."""

    @property
    def fails(self) -> bool:
        """Returns whether the row is over a budget, and not an expected failure."""
        return self.outcome is Outcome.OVER and not self.expected

    @property
    def is_expected_failure(self) -> bool:
        """Returns whether the row is over a budget in a test that failed as it was expected to."""
        return self.outcome is Outcome.OVER and self.expected

    @property
    def value(self) -> int | None:
        """The number that its metric names."""
        number: int | None = getattr(self, f"{self.metric}_bytes")
        return number

    @property
    def place(self) -> str:
        """Where it was measured: the device, or what stands for one, ``null:H100``."""
        return self.backend if ":" in self.backend else self.device

    @property
    def name(self) -> str:
        """The test, and the region in it."""
        return f"{self.nodeid} [{self.region}]" if self.region else self.nodeid


_MEASURED = (
    "backend",
    "device",
    "peak_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "retained_bytes",
    "workspace_bytes",
    "allocations",
    "duration_s",
    "held",
    "timeline",
)


def record(
    nodeid: str,
    region: str,
    verdict: Verdict | None,
    measurement: Measurement | None,
    shape: Mapping[str, int],
    where: str = "",
) -> Record:
    """The row for a verdict (``None``: measured only) on a measurement (``None``: none made)."""
    made: dict[str, Any] = {}
    if verdict is not None and verdict.measurement is not None:
        measurement = verdict.measurement  # it may know by now what was held
    if measurement is not None:
        made = {name: getattr(measurement, name) for name in _MEASURED}
        made["reason"] = measurement.unmeasured or ""
        made["out_of_memory"] = measurement.out_of_memory or ""
    if verdict is not None:
        made |= {"outcome": verdict.outcome, "reason": verdict.reason}
        made["growth"] = tuple(map(_growth, verdict.growths))
        if verdict.budget is not None:
            budget = verdict.budget
            made |= {"metric": budget.metric, "budget": budget.text}
            made |= {"limit_bytes": budget.limit_bytes}
    facts = measurement.symbols if measurement is not None else {}  # the device's, not the test's
    own = {name: value for name, value in shape.items() if name not in facts}
    return Record(nodeid, region, shape=own, where=where, **made)


def _growth(growth: Growth) -> dict[str, Any]:
    found = growth.polynomial
    sizes = {symbol: [*values] for symbol, values in growth.sizes.items()}
    peaks = [*growth.peaks.values()]
    return {"sizes": sizes, "peaks": peaks, "formula": str(found) if found else None}


def to_dict(row: Record) -> dict[str, Any]:
    """The record as JSON has it."""
    data = {name: getattr(row, name) for name in Record.__slots__}
    data["outcome"] = row.outcome.value if row.outcome else None
    data["held"] = [_held_to_dict(held) for held in row.held]
    data["timeline"] = _timeline_to_dict(row.timeline) if row.timeline else None
    return data


def from_dict(data: Mapping[str, Any]) -> Record:
    """The record that :func:`to_dict` wrote; fields of a newer minor version are passed over.

    Raises:
        AttnMemError: the data is not a record's.
    """
    try:
        known = {name: data[name] for name in Record.__slots__ if name in data}
        known["outcome"] = Outcome(data["outcome"]) if data["outcome"] else None
        known["growth"] = tuple(data.get("growth", ()))
        known["held"] = tuple(_held_from_dict(held) for held in data["held"])
        lives = data.get("timeline")
        known["timeline"] = None if lives is None else _timeline_from_dict(lives)
        made = _checked(Record(**known))
        if made.metric not in METRICS:
            raise ValueError(f"{shown(made.metric)} is no metric")
        return made
    except (KeyError, TypeError, ValueError) as error:
        why = excerpt(f"{type(error).__name__} {error}", 160)
        raise AttnMemError(f"not a record of attnmem: {why}") from error


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not abs(value) >> MAX_BITS


def _is_float(value: object) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and _is_int(value) and abs(value) <= float_info.max
    )


#: What a field that is annotated so may be, for a report to print it.
FITS: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "str": lambda value: isinstance(value, str),
        "bool": lambda value: isinstance(value, bool),
        "int": _is_int,
        "int | None": lambda value: value is None or _is_int(value),
        "float": _is_float,
        "float | None": lambda value: value is None or _is_float(value),
        "Mapping[str, int]": lambda value: (
            isinstance(value, dict) and all(map(_is_int, value.values()))
        ),
        "tuple[int, ...]": lambda value: all(map(_is_int, value)),
        "tuple[str, ...]": lambda value: all(isinstance(part, str) for part in value),
    }
)


#: By class: the names of its fields, what they are annotated as, and what may be in them.
_FIELDS: Mapping[type, tuple[tuple[str, str, Callable[[Any], bool]], ...]] = MappingProxyType(
    {
        kind: tuple(
            (part.name, str(part.type), FITS[str(part.type)])
            for part in fields(kind)
            if part.type in FITS
        )
        for kind in (Record, Held, Span, Timeline)
    }
)


def _checked(made: _Made) -> _Made:
    """The same, unless a field of it, which came from JSON, is not what it should be."""
    for name, annotation, fits in _FIELDS[type(made)]:
        value = getattr(made, name)
        if not fits(value):
            raise ValueError(f"{name}={shown(value)} is no {annotation}")
    return made


def _held_to_dict(held: Held) -> dict[str, Any]:
    data = {name: getattr(held, name) for name in Held.__slots__}
    del data["scratch"]  # ``op`` ends in ``(scratch)``
    traced = {name: data.pop(name) for name in ("module", "role", "dims")}
    known = {name: [*value] if name == "dims" else value for name, value in traced.items() if value}
    return {"bytes": data.pop("nbytes"), **data, "shape": list(held.shape), **known}


def _held_from_dict(data: Mapping[str, Any]) -> Held:
    return _checked(
        Held(
            data["bytes"],
            tuple(data["shape"]),
            data["dtype"],
            data["op"],
            data["where"],
            data.get("function", ""),
            data.get("module", ""),
            data.get("role", ""),
            tuple(data.get("dims", ())),
            str(data["op"]).endswith(SCRATCH_SUFFIX),
        )
    )


def _timeline_to_dict(timeline: Timeline) -> dict[str, Any]:
    spans = [
        {"born": span.born, "died": span.died, **_held_to_dict(span.held)}
        for span in timeline.spans
    ]
    return {"events": timeline.events, "note": timeline.note, "spans": spans}


def _timeline_from_dict(data: Mapping[str, Any]) -> Timeline:
    spans = tuple(
        _checked(Span(_held_from_dict(span), span["born"], span["died"])) for span in data["spans"]
    )
    made = _checked(Timeline(data["events"], spans, data["note"]))
    if not 0 <= made.events <= 2 * len(spans):
        raise ValueError(f"{made.events} events of {len(spans)} lives")
    for span in spans:
        if not 0 <= span.born < (made.events if span.died is None else span.died) <= made.events:
            raise ValueError(f"a life from {span.born} to {span.died} of {made.events} events")
    return made
