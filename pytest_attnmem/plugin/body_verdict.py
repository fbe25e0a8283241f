"""The verdict on the body of a test, which may have ended by an error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ..budgets.budget import Budget, BudgetSpec, resolve
from ..budgets.obstacle import Obstacle
from ..budgets.verdict import Outcome, Verdict, judge, not_enforced
from .endings import unfinished

if TYPE_CHECKING:
    from ..measurement.measurement import Measurement
    from ..symbols.attention_shape import AttentionShape
    from .growth_check import GrowthCheck


def judge_body(
    spec: BudgetSpec,
    measurement: Measurement | None,
    shape: AttentionShape,
    cause: BaseException | None,
    growth: GrowthCheck,
) -> Verdict:
    """Returns the verdict on a test's body, which ended by *cause*; None if it came to its end.

    Raises:
        AttnMemError: a symbol has no value, or the test does not run at other sizes.
    """
    if measurement is None or (cause is not None and spec.metric == "retained"):
        return not_judged(spec, measurement, "", cause)  # a traceback retains much
    budget = resolve(spec, shape, measurement.kinds)
    if cause is None:
        return judge(measurement, budget, growth.findings)
    # The body did not reach its end: it can be over, but never within.
    verdict = judge(measurement, replace(budget, exact=False))
    if verdict.outcome is Outcome.OVER and not isinstance(cause, pytest.skip.Exception):
        return replace(verdict, budget=budget)
    return not_enforced(*unfinished(cause), measurement, budget)


def not_judged(
    spec: BudgetSpec,
    measurement: Measurement | None,
    reason: str,
    cause: BaseException | None,
) -> Verdict:
    """Returns ``not enforced``, because of *reason*, or because the body ended by *cause*."""
    budget = Budget(None, spec.text, where=spec.where, metric=spec.metric)
    why = (reason, Obstacle.NOT_FINISHED) if cause is None else unfinished(cause)
    return not_enforced(*why, measurement, budget)
