"""The plan of one test: its budgets, made before its fixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from .options import MARKER

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from ..budgets.budget import BudgetSpec
    from ..budgets.verdict import Verdict
    from .session import Session


class Plan(NamedTuple):  # a dataclass takes 1 ms of every session
    """The budgets of one test, each of another metric, and their backends."""

    budgets: tuple[tuple[BudgetSpec, PrimedBackend], ...]
    memory: AttnMem
    blocked: tuple[Verdict, ...] = ()
    """The verdicts on budgets of devices that are not here."""
    default: bool = False
    """True if the budget is from ``--attnmem-default`` or the baseline, not from a marker."""

    @property
    def warmup(self) -> int:
        """The number of runs before the measured one."""
        return max((spec.warmup for spec, _ in self.budgets), default=0)

    @property
    def is_promise(self) -> bool:
        """True if the test, or a region that it made, has a limit of its own."""
        own = not self.default and any(spec.is_promise for spec, _ in self.budgets)
        return own or any(region.limited for region in self.memory.regions)


PLAN: pytest.StashKey[Plan] = pytest.StashKey()
#: The number of markers of a test when it was planned.
MARKS = pytest.StashKey[int]()


#: Tests that use one of these measure parts of themselves, marked or not.
FIXTURES = frozenset({"attnmem", "qkv"})


def wants_measuring(item: pytest.Item, session: Session) -> bool:
    """Returns True if a part of this test may be measured."""
    takes = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return bool(takes) or is_measured(item, session)


def is_measured(item: pytest.Item, session: Session) -> bool:
    """Returns True if this test has a row: a test that takes only ``qkv`` has none."""
    return bool(
        session.settings.default
        or takes_attnmem(item)
        or item.get_closest_marker(MARKER)
        or is_recorded(item, session)
    )


def budget_of_unmarked(item: pytest.Item, session: Session) -> BudgetSpec | None:
    """Returns the budget of a test without a marker: the default, or the baseline's; or None."""
    if session.settings.default is not None:
        return replace(session.settings.default, where="--attnmem-default")
    if not is_recorded(item, session):
        return None
    from ..budgets.parsing import parse

    return parse((), {})


def is_recorded(item: pytest.Item, session: Session) -> bool:
    """Returns True if the baseline has an entry for this test as a whole, or is to have one.

    A test without a marker that measures parts of itself has entries for these parts only.
    """
    baseline = session.baseline
    if session.settings.disable or baseline is None or takes_attnmem(item):
        return False
    return session.settings.update in ("all", "new") or baseline.has(own_nodeid(item))


def params_of(item: pytest.Item) -> dict[str, Any]:
    """Returns what a test is parametrized with, by name."""
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return params


def values_of(item: pytest.Item) -> dict[str, Any]:
    """Returns the values of the test's arguments and fixtures that are made, by name."""
    values: dict[str, Any] = getattr(item, "funcargs", {})
    return values


def fixtures_of(item: pytest.Item) -> Mapping[str, Sequence[pytest.FixtureDef[Any]]]:
    """Returns the fixtures that the test reaches, by name; of each, the last one is its own."""
    info = getattr(item, "_fixtureinfo", None)
    return {} if info is None else info.name2fixturedefs


def own_nodeid(item: pytest.Item) -> str:
    """Returns the test's node ID without the group that pytest-xdist appends to it."""
    own = f"{item.parent.nodeid}::{item.name}" if item.parent else item.nodeid
    return own if item.nodeid.startswith(f"{own}@") else item.nodeid


def takes_attnmem(item: pytest.Item) -> bool:
    """Returns True if the test, or a fixture other than ``qkv``, takes ``attnmem``."""
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return False
    takers = (made[-1].argnames for name, made in fixtures_of(item).items() if name != "qkv")
    return any("attnmem" in names for names in (info.argnames, *takers))
