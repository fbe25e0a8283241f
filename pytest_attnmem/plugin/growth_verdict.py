"""Holding a test to a growth contract, and telling how a test grows that is over a formula."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..budgets.budget import Budget
from ..budgets.growth_contract import Contract
from ..budgets.verdict import Outcome, Verdict, judge
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from .growth_check import Growing, Unclear
from .size_argument import variable
from .size_sweep import SizeSweep

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend


def judge_growth(
    measured: Measurement,
    budget: Budget,
    item: pytest.Item,
    memory: AttnMem,
    instrument: PrimedBackend,
) -> Verdict:
    """Returns the verdict on a budget that has a contract.

    Raises:
        AttnMemError: the test does not run at other sizes.
    """
    bare = judge(measured, budget)
    contract, value = budget.contract, measured.value(budget.metric)
    certain = value is not None and not measured.doubt(budget.metric)
    if contract is None or bare.outcome is Outcome.OVER or not certain:
        return bare  # out of memory, or not known: there is nothing to vary
    probe = SizeSweep(item, memory, instrument)
    try:
        growing = Growing(probe, variable(item, contract), budget.metric, measured)
        grown = growing.judged_by(contract)
    except Unclear as doubt:
        return replace(bare, outcome=Outcome.NOT_ENFORCED, reason=str(doubt))
    return judge(measured, budget, grown.growths, grown.notes)


def with_growth(
    verdict: Verdict,
    symbols: Iterable[str],
    item: pytest.Item,
    memory: AttnMem,
    instrument: PrimedBackend,
) -> Verdict:
    """Returns the verdict with how the test grows in *symbols* of its budget, where it varies."""
    measured, budget = verdict.measurement, verdict.budget
    symbols = sorted(symbols)
    if measured is None or budget is None or not symbols:
        return verdict
    named = Contract("", tuple(((symbol, 1),) for symbol in symbols))
    probe = SizeSweep(item, memory, instrument)
    try:
        growing = Growing(probe, variable(item, named), budget.metric, measured)
        return replace(verdict, growths=growing.explaining(symbols))
    except AttnMemError:  # an explanation must not be what fails a test
        return verdict
