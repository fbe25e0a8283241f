"""Judges a test by a growth contract, and explains the growth of a test that is over a formula."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..budgets.budget import Budget
from ..budgets.growth_contract import Contract
from ..budgets.verdict import Outcome, Verdict, judge
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from .growth_check import GrowthCheck
from .growth_runs import Unclear
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
    primed: PrimedBackend,
) -> Verdict:
    """Returns the verdict on a budget with a contract.

    Raises:
        AttnMemError: the test does not run at other sizes.
    """
    bare = judge(measured, budget)
    contract, value = budget.contract, measured.value(budget.metric)
    certain = value is not None and not measured.doubt(budget.metric)
    if contract is None or bare.outcome is Outcome.OVER or not certain:
        return bare  # out of memory, or unknown: nothing to compare with
    sweep = SizeSweep(item, memory, primed)
    try:
        check = GrowthCheck(sweep, variable(item, contract), budget.metric, measured)
        findings = check.findings(contract)
    except Unclear as error:
        return replace(bare, outcome=Outcome.NOT_ENFORCED, reason=str(error))
    return judge(measured, budget, findings.growths, findings.notes)


def with_growth(
    verdict: Verdict,
    symbols: Iterable[str],
    item: pytest.Item,
    memory: AttnMem,
    primed: PrimedBackend,
) -> Verdict:
    """Returns the verdict with the growth of the test in *symbols* of its budget, if known."""
    measured, budget = verdict.measurement, verdict.budget
    symbols = sorted(symbols)
    if measured is None or budget is None or not symbols:
        return verdict
    named = Contract("", tuple(((symbol, 1),) for symbol in symbols))
    sweep = SizeSweep(item, memory, primed)
    try:
        check = GrowthCheck(sweep, variable(item, named), budget.metric, measured)
        return replace(verdict, growths=check.explanation(symbols))
    except AttnMemError:  # an explanation must not fail a test
        return verdict
