"""What is to be measured in one test, known before its fixtures are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..api.attnmem import AttnMem
from ..backends.primed_backend import PrimedBackend
from ..budgets.budget import BudgetSpec, resolve
from ..budgets.growth_contract import Contract
from ..budgets.tolerance import NONE
from ..errors import AttnMemError, BackendUnavailable, BudgetError
from ..symbols.attention_shape import Source, gather
from ..symbols.names import ALIASES, SYMBOLS
from .markers import backend_name, read_markers, where
from .options import FIXTURES, MARKER
from .plan import Plan
from .size_argument import variable

if TYPE_CHECKING:
    import pytest

    from .row_writer import RowWriter
    from .session import Session


def make_plan(
    item: pytest.Item,
    session: Session,
    rows: RowWriter,
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

    def instrument(name: str | None) -> PrimedBackend:
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


def arguments(item: pytest.Item) -> Source:
    """The test's arguments that may be symbols: of parametrization, and what fixtures made of it.

    Others are not kept: a tensor among them must die with its test.
    """
    callspec = getattr(item, "callspec", None)
    params: Mapping[str, object] = callspec.params if callspec else {}
    values = {**params, **getattr(item, "funcargs", {})}
    known = {n: value for n, value in values.items() if n == "dtype" or isinstance(value, int)}
    return Source("the test's arguments", known)


def _check_symbols(
    item: pytest.Item, spec: BudgetSpec, instrument: PrimedBackend, node: Any
) -> None:
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
