"""A row of the report, and its JSON, which goes to the controller, JUnit and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from ..budgets.growth_contract import is_contract
from ..budgets.growth_fit import Growth
from ..budgets.verdict import Outcome, Verdict
from ..errors import AttnMemError
from ..measurement.held import SCRATCH_SUFFIX, WORKSPACE_SUFFIX, Held
from ..measurement.measurement import METRICS, Measurement
from ..measurement.timeline import Allocation, Timeline
from ..units import excerpt, format_size, shown
from .json_types import checked, json_fields

#: The fields that have another name in JSON.
JSON_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"nbytes": "bytes", "allocated_at": "born", "freed_at": "died"}
)


@dataclass(frozen=True, slots=True)
class Record:
    """The result of one budget, or of one region that was only measured."""

    nodeid: str
    region: str = ""
    outcome: Outcome | None = None
    """``None`` without a budget: the row is measured, unless it has a reason."""
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
    """A value of :class:`.State`; empty without a baseline."""
    baseline_torch: str = ""
    """The other version of torch that ``baseline_bytes`` are of, ``2.13`` or ``unknown``."""
    workspace_bytes: int = 0
    allocations: int = 0
    duration_s: float = 0.0
    held: tuple[Held, ...] = ()
    where: str = ""
    """The test: its file from the rootdir, and its line."""
    timeline: Timeline | None = None
    """The lifetimes of tensors, if a requested report or artifact shows them."""
    out_of_memory: str = ""
    """The bytes requested when memory ran out; then no size covers the whole body."""
    expected: bool = False
    """True if the test failed as it was expected to (``xfail``); the row then fails no session."""
    growth: tuple[Mapping[str, Any], ...] = ()
    """Peaks at other sizes: ``{"sizes": {"N": […]}, "peaks": […], "formula": …}``, and ``"over"``,
    the bytes over the formula of a budget with a contract.
    """
    explanation: tuple[str, ...] = ()
    """The lines of a failure between its reason and its tensors: what grew, and the budget."""

    def __repr__(self) -> str:
        outcome = self.outcome.value if self.outcome is not None else "measured"
        size = "" if self.value is None else f", {self.metric} {format_size(self.value)}"
        return f"<Record: {self.name} {outcome}{size}>"

    @property
    def fails(self) -> bool:
        """Returns True if the row is over a budget, and not an expected failure."""
        return self.outcome is Outcome.OVER and not self.expected

    @property
    def is_expected_failure(self) -> bool:
        """Returns True if the row is over a budget in a test that failed as it was expected to."""
        return self.outcome is Outcome.OVER and self.expected

    @property
    def is_contract(self) -> bool:
        """Returns True if the budget has a growth contract, and so no limit in bytes."""
        return self.limit_bytes is None and is_contract(self.budget)

    @property
    def value(self) -> int | None:
        """Returns the number of the row's metric."""
        number: int | None = getattr(self, f"{self.metric}_bytes")
        return number

    @property
    def place(self) -> str:
        """Returns the device, or the backend that stands for a device: ``null:H100``."""
        return self.backend if ":" in self.backend else self.device

    @property
    def name(self) -> str:
        """Returns the name of the test, and of the region in it."""
        return f"{self.nodeid} [{self.region}]" if self.region else self.nodeid


_FIELDS: Final = MappingProxyType(
    {kind: json_fields(kind, JSON_NAMES) for kind in (Record, Held, Allocation, Timeline)}
)

#: The fields of ``Held`` that the end of ``op`` tells in JSON.
NAMED_BY_OP = ("scratch", "workspace")

_MEASURED = (
    *("backend", "device", *(f"{metric}_bytes" for metric in METRICS), "workspace_bytes"),
    *("allocations", "duration_s", "held", "timeline"),
)


def record(
    nodeid: str,
    region: str,
    verdict: Verdict | None,
    measurement: Measurement | None,
    shape: Mapping[str, int],
    where: str = "",
) -> Record:
    """Returns the row of a verdict and a measurement; each may be missing."""
    made: dict[str, Any] = {}
    if verdict is not None and verdict.measurement is not None:
        measurement = verdict.measurement  # it may know the held tensors by now
    if measurement is not None:
        made = {name: getattr(measurement, name) for name in _MEASURED}
        made["reason"] = measurement.unmeasured or ""
        made["out_of_memory"] = measurement.out_of_memory or ""
    if verdict is not None:
        made |= {"outcome": verdict.outcome, "reason": verdict.reason}
        made["growth"] = tuple(map(_growth, verdict.growths))
        budget = verdict.budget
        made |= {"metric": budget.metric, "budget": budget.text}
        made |= {"limit_bytes": budget.limit_bytes}
    # Facts of the device are not of the test.
    facts = measurement.symbols if measurement is not None else {}
    own = {name: value for name, value in shape.items() if name not in facts}
    return Record(nodeid, region, shape=own, where=where, **made)


def _growth(growth: Growth) -> dict[str, Any]:
    found = growth.polynomial
    sizes = {symbol: [*values] for symbol, values in growth.sizes.items()}
    peaks = [*growth.peaks.values()]
    made = {"sizes": sizes, "peaks": peaks, "formula": str(found) if found else None}
    if growth.formula_bytes:
        made["over"] = [growth.over(at) for at in growth.peaks]
    return made


def to_dict(row: Record) -> dict[str, Any]:
    """Returns the record as the JSON file has it."""
    data = {name: getattr(row, name) for name in Record.__slots__}
    data["outcome"] = row.outcome.value if row.outcome else None
    data["held"] = [_held_to_dict(held) for held in row.held]
    data["timeline"] = _timeline_to_dict(row.timeline) if row.timeline else None
    return data


def from_dict(data: Mapping[str, Any]) -> Record:
    """Returns the record that :func:`to_dict` wrote; fields of newer minor versions are ignored.

    Raises:
        AttnMemError: the data is not a record.
    """
    try:
        known = {name: data[name] for name in Record.__slots__ if name in data}
        known["outcome"] = Outcome(data["outcome"]) if data["outcome"] else None
        known["growth"] = tuple(data.get("growth", ()))
        known["explanation"] = tuple(data.get("explanation", ()))
        known["held"] = tuple(_held_from_dict(held) for held in data["held"])
        lives = data.get("timeline")
        known["timeline"] = None if lives is None else _timeline_from_dict(lives)
        made = checked(Record(**known), _FIELDS[Record])
        if made.metric not in METRICS:
            raise ValueError(f"{shown(made.metric)} is not a metric")
        return made
    except (KeyError, TypeError, ValueError) as error:
        why = excerpt(f"{type(error).__name__} {error}", 160)
        raise AttnMemError(f"not a record of attnmem: {why}") from error


def _held_to_dict(held: Held) -> dict[str, Any]:
    data = {JSON_NAMES.get(name, name): getattr(held, name) for name in Held.__slots__}
    for named in NAMED_BY_OP:
        del data[named]
    traced = {name: data.pop(name) for name in ("module", "role", "dims", "by", "holder")}
    known = {name: [*value] if name == "dims" else value for name, value in traced.items() if value}
    return {**data, "shape": list(held.shape), **known}


def _held_from_dict(data: Mapping[str, Any]) -> Held:
    known: dict[str, Any] = {}
    for part in fields(Held):
        name = JSON_NAMES.get(part.name, part.name)
        if name not in NAMED_BY_OP and (name in data or part.default is MISSING):
            value = data[name]
            known[part.name] = tuple(value) if isinstance(value, list) else value
    known["workspace"] = str(data["op"]).endswith(WORKSPACE_SUFFIX)
    known["scratch"] = known["workspace"] or str(data["op"]).endswith(SCRATCH_SUFFIX)
    return checked(Held(**known), _FIELDS[Held])


def _timeline_to_dict(timeline: Timeline) -> dict[str, Any]:
    spans = [
        {"born": span.allocated_at, "died": span.freed_at, **_held_to_dict(span.held)}
        for span in timeline.spans
    ]
    return {"events": timeline.events, "note": timeline.note, "spans": spans}


def _timeline_from_dict(data: Mapping[str, Any]) -> Timeline:
    spans = tuple(
        checked(Allocation(_held_from_dict(span), span["born"], span["died"]), _FIELDS[Allocation])
        for span in data["spans"]
    )
    made = checked(Timeline(data["events"], spans, data["note"]), _FIELDS[Timeline])
    if not 0 <= made.events <= 2 * len(spans):
        raise ValueError(f"{made.events} events of {len(spans)} spans")
    for span in spans:
        allocated, freed = span.allocated_at, span.freed_at
        if not 0 <= allocated < (made.events if freed is None else freed) <= made.events:
            raise ValueError(f"a span from {allocated} to {freed} of {made.events} events")
    return made
