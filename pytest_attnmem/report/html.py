"""The HTML page: one file with all of its data, which opens from disk and loads nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import isfinite
from string import Template
from typing import Any, Final, TypeVar

from ..budgets.verdict import Outcome
from ..measurement.held import Held
from ..measurement.measurement import METRICS
from ..measurement.peak_components import Component, decompose
from ..measurement.symbolic_shapes import product
from ..measurement.tensor_groups import ROLES, apart, in_module, line_of
from ..measurement.timeline import Timeline
from ..units import excerpt, format_count, format_size
from . import cells, growth_curves
from .record import Record
from .summary import Summary


def document(
    template: str, styles: Sequence[str], scripts: Sequence[str], data: object, **texts: str
) -> str:
    """Returns the page of a template, which loads nothing else; all of ``data`` is text in it.

    ``texts`` are further parts of the template, in HTML.
    """
    style = "\n".join(_part(f"{name}.css") for name in styles)
    script = "\n".join(_part(f"{name}.js") for name in scripts)
    return Template(_part(f"{template}.html")).substitute(
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_as_json(data),
        **texts,
    )


def _part(name: str) -> str:
    return (files(__package__) / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """Returns the hash that lets the page run this text, and no other text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _as_json(data: object) -> str:
    """Returns JSON in ASCII that no browser reads as markup."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


#: The parts of the page, in their order.
STYLES = ("page", "table", "details", "components", "chart")
SCRIPTS = ("text", "chart", "timeline", "growth", "components", "details", "table", "theme", "page")

#: The most held tensors in a list; all others are added up.
LISTED = 40

_Thing = TypeVar("_Thing")

#: A browser represents integers below this number exactly.
_EXACT = 1 << 53

Texts = dict[str, int]
"""Texts that repeat, each with its index in the page's list of texts."""

Tensors = dict[Held, tuple[int, Held]]
"""The tensors of a row, without the facts of a traced run: the index of each in the row's list, and
the tensor with all its facts."""


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the page; names of tests and all their texts are data in it."""
    return document(
        "page",
        STYLES,
        SCRIPTS,
        _page(summary, environment),
        title=verdict(summary),
        rows="\n".join(map(_plain_row, cells.failures_first(summary))),
    )


def verdict(summary: Summary) -> str:
    """Returns the result in a line: ``2 of 12 budgets exceeded, 1 not enforced``."""
    budgets = summary.budgets
    over, unproven = summary.count(Outcome.OVER), summary.count(Outcome.NOT_ENFORCED)
    if not budgets:
        return "No budgets, only measurements" if summary.records else "Nothing was measured"
    many = f"{budgets:,} budget{'' if budgets == 1 else 's'}"
    expected = f"{summary.expected:,} expected failure{'' if summary.expected == 1 else 's'}"
    more = [f"{unproven:,} not enforced"] if unproven and over else []
    more += [expected] if summary.expected else []
    if over or unproven or more:
        first = f"{over:,} of {many} exceeded" if over else f"{unproven:,} of {many} not enforced"
        kept = f"{summary.count(Outcome.WITHIN):,} of {many} kept"
        return ", ".join([first if over or unproven else kept, *more])
    return "The one budget is kept" if budgets == 1 else f"All {many} kept"


def _page(summary: Summary, environment: Mapping[str, Any]) -> dict[str, Any]:
    texts: Texts = {}
    alike = growth_curves.series(summary.records)
    drawn: dict[tuple[Any, ...], Any] = {}
    highest = summary.highest
    return {
        "verdict": verdict(summary),
        "budgets": summary.budgets,
        "environment": [*_origin(environment, summary), *_facts(environment)],
        "highest": None if highest is None else [_number(highest.peak_bytes), highest.name],
        "workspaces": [[place, _number(size)] for place, size in summary.workspaces.items()],
        "rows": [
            _row(row, texts, _charts(row, alike, drawn)) for row in cells.failures_first(summary)
        ],
        "texts": [*texts],
    }


def _charts(
    row: Record,
    alike: Mapping[tuple[Any, ...], growth_curves.Series],
    drawn: dict[tuple[Any, ...], Any],
) -> Any:
    """Returns the growth charts of a row; rows of a sweep that share charts share one list."""
    key = growth_curves.shared(row, alike)
    if key is None:
        return _exactly(growth_curves.growths(row, alike))
    if key not in drawn:
        drawn[key] = _exactly(growth_curves.growths(row, alike))
    return drawn[key]


def _row(row: Record, texts: Texts, growths: Any) -> dict[str, Any]:
    """Returns the data of a row for the page; sizes are bytes."""
    plain = ["nodeid", "region", "reason", "metric", "budget", "where"]
    plain += ["baseline_state", "baseline_torch", "out_of_memory"]
    sizes = (*(f"{metric}_bytes" for metric in METRICS), "limit_bytes", "baseline_bytes")
    lines = held_lines(row.held)
    listed, others = lines[:LISTED], lines[LISTED:]
    tensors: Tensors = {}
    data: dict[str, Any] = {name: getattr(row, name) for name in plain}
    data |= {name: _number(getattr(row, name)) for name in sizes}
    return data | {
        "outcome": cells.outcome(row),
        "explanation": [line.strip() for line in row.explanation] if row.fails else [],
        "place": cells.backend(row),
        "backend": row.backend,
        "symbols": [[name, _number(size)] for name, size in row.shape.items()],
        "shape": cells.shape(row),
        "workspace_bytes": _number(row.workspace_bytes),
        "allocations": _number(row.allocations),
        "duration_s": row.duration_s if isfinite(row.duration_s) else None,
        "held": [
            [
                _known(line.held, tensors),
                line.count,
                _place(line.module, texts),
                _place(line.held_by, texts),
            ]
            for line in listed
        ],
        "held_count": len(row.held),
        "more_held": [
            sum(line.tensors for line in others),
            _number(sum(line.all_bytes for line in others)),
        ],
        "components": [
            [_number(part.nbytes), part.count, _place(part.name, texts), _place(part.growth, texts)]
            for part in components(row)
        ],
        "timeline": None if row.timeline is None else _timeline(row.timeline, tensors),
        "tensors": [_tensor(held, texts) for _, held in tensors.values()],
        "growth": growths,
    }


def _place(thing: _Thing, places: dict[_Thing, int]) -> int:
    """Returns the index of a thing in a list of the page; a new thing joins the list."""
    return places.setdefault(thing, len(places))


def _known(held: Held, tensors: Tensors) -> int:
    """Returns the index of a tensor in the row's list; a new tensor joins the list."""
    place, _ = tensors.setdefault(held.origin, (len(tensors), held))
    return place


def _tensor(held: Held, texts: Texts) -> list[Any]:
    """Returns bytes, then indices of texts: shape, symbols, dtype, op, line, function, module."""
    shape = str([*held.shape]) if held.dtype or held.shape else ""
    meaning = product(held.dims)
    words = (shape, meaning, held.dtype, held.op, line_of(held), held.function, in_module(held))
    return [_number(held.nbytes), *(_place(word, texts) for word in words)]


def _timeline(life: Timeline, tensors: Tensors) -> dict[str, Any]:
    spans = [(span.allocated_at, span.freed_at, _known(span.held, tensors)) for span in life.spans]
    return {"events": life.events, "note": life.note, "spans": spans}


def _origin(environment: Mapping[str, Any], summary: Summary) -> Iterator[tuple[str, str]]:
    """Yields the date, the commit and the devices of the session."""
    if date := environment.get("date"):
        yield "date", str(date).replace("T", " ").replace("+00:00", " UTC")
    if commit := environment.get("commit"):
        changes = " with uncommitted changes" if environment.get("uncommitted_changes") else ""
        yield "commit", f"{str(commit)[:10]}{changes}"
    places = dict.fromkeys(place for row in summary.records if (place := cells.backend(row)))
    if places:
        yield "measured on", ", ".join(places)


_ORIGIN: Final = frozenset({"date", "commit", "uncommitted_changes"})


def _facts(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the names and values of the known facts of the machine.

    The device of a machine without CUDA is the machine itself, such as ``x86_64``.
    """
    machine = {} if environment.get("compute_capability") else {"device": "machine"}
    return [
        (machine.get(name, name).replace("_", " "), _fact(value))
        for name, value in environment.items()
        if value not in (None, {}, "") and name not in _ORIGIN
    ]


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(part)}" for name, part in value.items())
    return str(value)


def _number(value: int | None) -> int | str | None:
    """Returns the number, or its digits as text if a browser would round it."""
    return value if value is None or abs(value) < _EXACT else str(value)


def _exactly(value: Any) -> Any:
    """Returns the value with each number in it replaced by :func:`_number`."""
    if isinstance(value, dict):
        return {name: _exactly(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(_exactly, value)]
    return _number(value) if isinstance(value, int) else value


def _plain_row(row: Record) -> str:
    """Returns a line of the table that the page shows if scripts do not run."""
    value = None if row.out_of_memory else row.value
    sizes = ["" if size is None else format_size(size) for size in (row.limit_bytes, value)]
    words = [row.name, cells.backend(row), sizes[0] or row.budget, sizes[1]]
    words += [cells.outcome(row), row.reason]
    return f"<tr>{''.join(f'<td>{escape(excerpt(word, 400))}</td>' for word in words)}</tr>"


@dataclass(frozen=True, slots=True)
class HeldLine:
    """Equal tensors of all layers, or all tensors of a role."""

    held: Held
    """One of the tensors; of a role, their sum."""
    count: int
    """The number of times that ``held`` is there."""
    tensors: int
    """The number of tensors."""
    module: str
    """``saved by blocks.*.mlp``; empty: none or unknown."""
    held_by: str = ""
    """``held by Loop.outputs[3]``; empty: unknown."""

    @property
    def all_bytes(self) -> int:
        """Returns the bytes of all tensors of the line."""
        return self.held.nbytes * self.count


def held_lines(held: Iterable[Held]) -> list[HeldLine]:
    """Returns the lines, the largest first."""
    groups, roles = apart(held)
    lines = [
        HeldLine(one.held, one.count, one.count, in_module(one.held), one.held_by) for one in groups
    ]
    for role, tensors in roles.items():
        count = len(tensors)
        name = f"{ROLES[role]}: {format_count(count, 'tensor')}"
        whole = Held(sum(tensor.nbytes for tensor in tensors), (), "", name, "")
        lines.append(HeldLine(whole, 1, count, ""))
    return sorted(lines, key=lambda line: -line.all_bytes)


#: The difference between the measured number and the sum of the known tensors.
NOT_ATTRIBUTED = "not attributed"

#: The most components; smaller ones are added up.
_MOST = 12


def components(row: Record) -> tuple[Component, ...]:
    """Returns the components, largest first; they sum to the measured number.

    There are none if the number or its tensors are unknown. A row with the metric ``retained``
    lists the tensors at the end, every other row lists the tensors at the peak. A workspace is not
    a component, because no measurement includes it.
    """
    total = row.retained_bytes if row.metric == "retained" else row.peak_bytes
    if total is None or not row.held:
        return ()
    parts = [
        part if part.has_tensors else replace(part, name=NOT_ATTRIBUTED, growth="")
        for part in decompose({"": row.held}, peak_bytes=total)
    ]
    small = [part for part in parts[_MOST - 1 :] if part.has_tensors]
    if len(small) < 2:
        return tuple(parts)
    others = Component(
        "other tensors",
        sum(part.nbytes for part in small),
        sum(part.count for part in small),
        "",
        " + ".join(part.formula for part in small),
    )
    kept = [part for part in parts if part not in small]
    return tuple(sorted([*kept, others], key=lambda part: -part.nbytes))
