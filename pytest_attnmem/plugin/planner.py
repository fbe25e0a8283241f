"""Plans the measurements of one test, before its fixtures are made."""

from __future__ import annotations

import pytest

from ..api.attnmem import AttnMem
from ..api.conclusion import Strictness
from ..backends.primed_backend import PrimedBackend
from ..budgets.budget import Budget, BudgetSpec, Obstacle, resolve
from ..budgets.growth_contract import Contract
from ..budgets.tolerance import NONE
from ..budgets.verdict import Verdict, not_enforced
from ..errors import AttnMemError, BackendUnavailable, BudgetError, DeviceMissing
from ..symbols.attention_shape import Source, gather
from ..symbols.names import ALIASES, SYMBOLS, WORLD
from .item_arguments import arguments, variable, varies
from .markers import read_markers
from .options import MARKER
from .plan import FIXTURES, MARKS, PLAN, Plan, budget_of_unmarked
from .ranks import check_ranks, world_of
from .row_writer import RowWriter
from .session import SESSION
from .world_runs import names_world


def plan_or_fail(item: pytest.Item) -> Plan | None:
    """Returns the test's plan, or fails the test in one line."""
    earlier = item.stash.get(PLAN, None)
    plan, problem = None, ""
    try:
        plan = make_plan(item, None if earlier is None else earlier.memory)
    except AttnMemError as error:
        problem = str(error)
    if problem:
        RowWriter(item).write_unmeasured(problem)
        pytest.fail(problem, pytrace=False)
    item.stash[MARKS] = sum(1 for _ in item.iter_markers(MARKER))
    if plan is not None:
        item.stash[PLAN] = plan
    return plan


def make_plan(
    item: pytest.Item, memory: AttnMem | None = None, *, wanted: bool = False
) -> Plan | None:
    """Returns the plan for ``item``; None if it measures nothing, unless a plan is ``wanted``.

    ``memory`` is the object that an earlier plan of the test gave to its fixtures.

    Raises:
        AttnMemError: a marker cannot be read, or its backend is not available.
    """
    session = item.config.stash[SESSION]
    settings = session.settings
    specs = () if settings.disable else read_markers(item, session.parsed, settings.backend)
    if specs:
        check_ranks(item)
    default = None if specs or settings.disable else budget_of_unmarked(item, session)
    if default is not None:
        specs = (default,)
    if not specs and not wanted and not FIXTURES & set(getattr(item, "fixturenames", ())):
        return None
    names = [spec.backend or settings.backend for spec in specs]
    named = {*(names or [settings.backend])} != {"auto"}
    memory = memory or AttnMem(
        session.primed,
        tuple(Source("the marker", spec.symbols) for spec in specs),
        None if settings.disable else RowWriter(item),
        backend=names[0] if names else settings.backend,
        strict=Strictness(settings.strict, named=named),
        explain=settings.explain,
        enforcing=not settings.disable,
    )
    budgets, blocked = [], []
    for spec, name in zip(specs, names, strict=True):
        try:
            budgets.append((spec, session.primed(name)))
        except BackendUnavailable as error:
            if isinstance(error, DeviceMissing) or not named:
                blocked.append(_blocked(spec, error))
            elif spec.backend is None:
                raise
            else:
                raise BackendUnavailable(f"{MARKER}: {error}   {spec.where}") from error
    if default is None:
        for spec, primed in budgets:
            _check(item, spec, primed)
    return Plan(tuple(budgets), memory, tuple(blocked), default is not None)


def _blocked(spec: BudgetSpec, error: BackendUnavailable) -> Verdict:
    """Returns the verdict on a budget whose backend cannot measure here."""
    missing = isinstance(error, DeviceMissing)
    obstacle = Obstacle.NO_DEVICE if missing else Obstacle.NOT_COUNTED
    budget = Budget(None, spec.text, where=spec.where, metric=spec.metric)
    return not_enforced(f"{error}{_instead(spec)}", obstacle, None, budget)


def _instead(spec: BudgetSpec) -> str:
    """Returns the end of a message: the backend that needs no device, where one stands for it."""
    kind, _, index = (spec.device or spec.backend or "").partition(":")
    if kind not in ("cuda", "accelerator"):
        return ""
    several = index.isdecimal() and int(index) > 0
    other = f"null:{int(index) + 1}xH100" if several else "simulated:H100"
    how = f"--attnmem-backend {other}" if spec.device else f"backend='{other}'"
    return f"; {how} measures without a GPU"


def _check(item: pytest.Item, spec: BudgetSpec, primed: PrimedBackend) -> None:
    """Fails before the fixtures run if a symbol cannot get a value.

    Raises:
        AttnMemError: the budget cannot be resolved.
    """
    try:
        for contract in spec.contracts:
            _check_contract(item, spec, contract)
        names, known = set(getattr(item, "fixturenames", ())), arguments(item)
        # The body of a rank may make a device mesh, whose dimensions are symbols.
        may_give = {"qkv", *SYMBOLS, *ALIASES, "dtype", *spec.read}
        if world_of(item) is None and not may_give & (names - set(known.values)):
            backend = primed.backend
            device = Source(f"the {backend.name} backend", backend.symbols)
            shape = gather([Source("the marker", spec.symbols), known, device])
            resolve(spec, shape, backend.kinds)
    except AttnMemError as error:
        raise type(error)(f"{MARKER}: {error}   {spec.where}") from error


def _check_contract(item: pytest.Item, spec: BudgetSpec, contract: Contract) -> None:
    alone = len(spec.contracts) == len(spec.limits)
    if alone and (spec.exact or spec.tolerance != NONE):
        if spec.sums:
            raise BudgetError(
                f"budget {spec.text} takes no exact and no tolerance: write what it may exceed in"
                " its formula"
            )
        raise BudgetError(
            f"contract {contract} takes no exact and no tolerance: it bounds the growth of"
            " memory, not its amount"
        )
    if names_world(item, contract):
        contract = contract.without(WORLD)
        if not varies(item, contract, spec.fixed):
            return
    variable(item, contract, spec.fixed)
