"""What is to be measured in one test, known before its fixtures are made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .api import AttnMem
from .backends import backend_of
from .budget import BudgetSpec, parse, resolve
from .contract import Contract
from .errors import AttnMemError, BackendUnavailable, BudgetError
from .instrument import Instrument
from .settings import FIXTURES, MARKER
from .shape import ALIASES, SYMBOLS, Source, gather
from .tolerance import NONE
from .variable import variable

if TYPE_CHECKING:
    import pytest

    from .rows import Rows
    from .session import Session


_METRIC = re.compile(r"metric\s*=\s*[\"'](\w+)")


@dataclass(frozen=True, slots=True)
class Plan:
    """The budgets of one test, of different metrics, and what they are measured with."""

    budgets: tuple[tuple[BudgetSpec, Instrument], ...]
    memory: AttnMem
    blocked: str = ""
    """Why nothing can be measured here, though nobody asked for the impossible."""
    default: bool = False
    """The budget is the session's, not the test's own."""
    nodes: Mapping[str, Any] = field(default_factory=dict)
    """Metric → the test, class or module that has the marker."""


def make_plan(
    item: pytest.Item,
    session: Session,
    rows: Rows,
    memory: AttnMem | None = None,
    *,
    wanted: bool = False,
) -> Plan | None:
    """The plan for ``item``; ``None`` if there is nothing to measure in it, unless it is wanted.

    ``memory`` is what an earlier plan of the test gave to its fixtures.

    Raises:
        AttnMemError: a marker cannot be read, or asks for what cannot be had.
    """
    settings = session.settings
    marked = {} if settings.disable else read_markers(item)
    specs = [spec for spec, _ in marked.values()]
    default = not specs and not settings.disable and settings.default is not None
    if settings.default is not None and default:
        specs = [settings.default]
    if not specs and not wanted and not FIXTURES & set(getattr(item, "fixturenames", ())):
        return None
    names = [backend_name(spec, settings.backend) or settings.backend for spec in specs]

    def instrument(name: str | None) -> Instrument:
        __tracebackhide__ = True
        return session.instrument(name or (names[0] if names else settings.backend))

    memory = memory or AttnMem(
        instrument,
        tuple(Source("the marker", spec.symbols) for spec in specs),
        None if settings.disable else rows.keep,
        None if settings.disable else rows.gate.hold,
        strict=settings.strict,
        explain=settings.explain,
        enforcing=not settings.disable,
    )
    nodes = {metric: node for metric, (_, node) in marked.items()}
    budgets = []
    for spec, name in zip(specs, names, strict=True):
        try:
            budgets.append((spec, session.instrument(name)))
        except BackendUnavailable as error:
            if set(names) == {"auto"}:
                return Plan((), memory, str(error), default)
            if backend_name(spec) is None:
                raise
            place = where(item, nodes[spec.metric], spec.metric)
            raise BackendUnavailable(f"{MARKER}: {error}   {place}") from error
    for spec, chosen in budgets:
        if not default:
            _check_symbols(item, spec, chosen, nodes[spec.metric])
    return Plan(tuple(budgets), memory, "", default, nodes)


def read_markers(item: pytest.Item) -> dict[str, tuple[BudgetSpec, Any]]:
    """The test's budgets by metric, and what has the marker; a function's before its class's.

    Raises:
        AttnMemError: a marker cannot be read; the text says where it is.
    """
    found: dict[str, tuple[BudgetSpec, Any]] = {}
    places: dict[tuple[str, object], BudgetSpec] = {}
    for node, mark, place in _markers(item):
        try:
            spec = parse(mark.args, mark.kwargs)
            backend_name(spec)
        except AttnMemError as error:
            line = where(item, node, str(mark.kwargs.get("metric", "peak")))
            raise type(error)(f"{MARKER}: {error}   {line}") from error
        closest, own = found.setdefault(spec.metric, (spec, node))
        if spec.limits and not closest.limits:
            given = ", ".join(closest.symbols)
            raise BudgetError(
                f"{MARKER}: {f'{given} ' if given else 'a marker '}without a limit hides the limit"
                f" {spec.text!r} of {where(item, node, spec.metric)}; markers do not merge, so"
                f" give the limit too   {where(item, own, spec.metric)}"
            )
        other = places.setdefault((spec.metric, place), spec)
        if other is not spec:
            raise BudgetError(
                f"{MARKER}: two markers of metric {spec.metric!r} in one place,"
                f" {other.text or 'no limit'!r} and {spec.text or 'no limit'!r}; keep one"
                f"   {where(item, node, spec.metric)}"
            )
    return found


def _markers(item: pytest.Item) -> Iterator[tuple[Any, Any, object]]:
    """Yields node, marker and the place that the marker is written in, the closest first.

    Pytest lists the markers of one function or class in the order of writing, a base class's before
    its subclass's, and a function's before those of its parameter set.
    """
    own = [*getattr(getattr(item, "callspec", None), "marks", ())]
    for node, group in groupby(item.iter_markers_with_node(MARKER), key=itemgetter(0)):
        defined = getattr(node, "obj", None)
        owners = [*getattr(defined, "__mro__", (defined,))]
        known = {id(mark): place for place, o in enumerate(owners, 1) for mark in _written_on(o)}
        known |= {id(mark): 0 for mark in own}
        late = len(owners) + 1  # added while the session runs
        ranked = [(known.get(id(mark), late), mark) for _, mark in group]
        for rank, mark in sorted(ranked, key=itemgetter(0)):
            yield node, mark, (id(node), rank) if 0 < rank < late else id(mark)


def _written_on(owner: object) -> Iterator[Any]:
    """Yields the markers of a function, a class or a module itself."""
    marks = getattr(owner, "__dict__", {}).get("pytestmark", ())
    for mark in marks if isinstance(marks, (list, tuple)) else [marks]:
        yield getattr(mark, "mark", mark)


def backend_name(spec: BudgetSpec, running: str = "auto") -> str | None:
    """The backend that a marker asks for, by name or by device, in a session on ``running``.

    Raises:
        BudgetError: it names a device that its backend does not measure.
    """
    if spec.device is None:
        return spec.backend
    if spec.device.partition(":")[0] == "gpu":
        raise BudgetError(f"unknown device {spec.device!r}; write 'cuda', 'cuda:1' or 'cpu'")
    fitting = backend_of(spec.device)
    if spec.backend in (None, fitting.partition(":")[0]):
        return fitting if spec.backend else backend_of(spec.device, running)
    raise BudgetError(
        f"backend={spec.backend!r} does not measure device={spec.device!r}; give one of the two"
    )


def arguments(item: pytest.Item) -> Source:
    """The test's arguments that may be symbols: of parametrization, and what fixtures made of it.

    Others are not kept: a tensor among them must die with its test.
    """
    callspec = getattr(item, "callspec", None)
    params: Mapping[str, object] = callspec.params if callspec else {}
    values = {**params, **getattr(item, "funcargs", {})}
    known = {n: value for n, value in values.items() if n == "dtype" or isinstance(value, int)}
    return Source("the test's arguments", known)


def where(item: pytest.Item, node: Any, metric: str) -> str:
    """File and line of the marker on ``node``, or of the test where its line cannot be found.

    Read only when there is something to complain of: finding a line of source takes its time.
    """
    try:
        source = inspect.unwrap(node.obj)
        lines, start = inspect.getsourcelines(source)
        file = Path(inspect.getsourcefile(source) or item.path)
    except (AttributeError, OSError, TypeError):
        return f"{item.path.name}:{(item.location[1] or 0) + 1}"
    return f"{file.name}:{max(start, 1) + _line(lines, metric)}"


def _line(lines: list[str], metric: str) -> int:
    """The place of the marker of that metric; of the first marker, where none names its own."""
    listed = (place for place, line in enumerate(lines) if line.lstrip().startswith("pytestmark"))
    first = next(listed, 0)  # a module's or a class's, and what is above it belongs to others
    starts = [
        place for place, line in enumerate(lines) if place >= first and f"mark.{MARKER}" in line
    ]
    for start, end in pairwise([*starts, len(lines)]):
        named = _METRIC.search("".join(lines[start:end]))
        if (named[1] if named else "peak") == metric:
            return start
    return starts[0] if starts else 0


def _check_symbols(item: pytest.Item, spec: BudgetSpec, instrument: Instrument, node: Any) -> None:
    """Fail before the fixtures run, if it is clear by now that a symbol will be missing."""
    names = getattr(item, "fixturenames", ())
    for limit in spec.limits.values():
        if isinstance(limit, Contract):
            _check_contract(item, spec, limit, node)
    if "qkv" in names:
        return
    known = arguments(item)
    coming = set(names) - set(known.values)  # from a fixture, perhaps made of a parameter
    if coming & {*SYMBOLS, *ALIASES, "dtype"} or coming & set(_read_by(spec)):
        return
    backend = instrument.backend
    device = Source(f"the {backend.name} backend", backend.symbols)
    try:
        resolve(spec, gather([Source("the marker", spec.symbols), known, device]), backend.kinds)
    except AttnMemError as error:
        raise type(error)(f"{MARKER}: {error}   {where(item, node, spec.metric)}") from error


def _check_contract(item: pytest.Item, spec: BudgetSpec, contract: Contract, node: Any) -> None:
    alone = all(isinstance(limit, Contract) for limit in spec.limits.values())
    if alone and (spec.exact or spec.tolerance != NONE):
        raise BudgetError(
            f"{MARKER}: contract {contract} takes no exact and no tolerance: it says how memory"
            f" grows, and not how much it is   {where(item, node, spec.metric)}"
        )
    try:
        variable(item, contract)
    except BudgetError as error:
        raise BudgetError(f"{MARKER}: {error}   {where(item, node, spec.metric)}") from error


def _read_by(spec: BudgetSpec) -> frozenset[str]:
    return frozenset().union(
        *(getattr(limit, "symbols", frozenset()) for limit in spec.limits.values())
    )
