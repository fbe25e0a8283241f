"""Comparisons: ratios, savings, and a base without a measurement."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pytest_attnmem.api.comparison import Comparison, judge_comparison
from pytest_attnmem.budgets.verdict import Outcome, Verdict
from pytest_attnmem.errors import AttnMemError, BudgetError
from pytest_attnmem.measurement.measurement import Measurement
from pytest_attnmem.symbols.attention_shape import AttentionShape, Source, gather
from pytest_attnmem.units import shown

SHAPE = gather([Source("test", {"B": 1, "N": 10, "itemsize": 4})])
RATIO = "is not a ratio; write a number (0.5) or a percentage ('50%')"
RANGE = "is not a ratio; expected 0 or more, below 2**63"
SHARE = "write a fraction (0.05), a percentage ('5%'), a size ('1 MiB') or both ('2%+1MiB')"
WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED


def compared(
    new: Measurement,
    base: Measurement,
    max_ratio: Any = None,
    min_saving: Any = None,
    metric: str = "peak",
    shape: AttentionShape = SHAPE,
) -> Verdict:
    return judge_comparison(new, base, (max_ratio, min_saving), metric, "test_a.py:3", shape)


@pytest.mark.parametrize(
    ("max_ratio", "min_saving", "limit", "text"),
    [
        (None, None, 1024, "1x base 1.0 KiB"),
        (0.5, None, 512, "0.5x base 1.0 KiB"),
        (np.float64(0.5), None, 512, "0.5x base 1.0 KiB"),
        (0.1, None, 102, "0.1x base 1.0 KiB"),  # not the nearest binary fraction; rounded down
        (Fraction(1, 3), None, 341, "1/3x base 1.0 KiB"),
        (2, None, 2048, "2x base 1.0 KiB"),
        (0, None, 0, "0x base 1.0 KiB"),
        ("50%", None, 512, "50% of base 1.0 KiB"),
        (" 150 %", None, 1536, "150 % of base 1.0 KiB"),
        ("0.5", None, 512, "0.5 of base 1.0 KiB"),
        (None, "24 B", 1000, "base 1.0 KiB less 24 B"),
        (None, "50%", 512, "base 1.0 KiB less 50%"),
        (None, "0.25", 768, "base 1.0 KiB less 0.25"),
        (None, 0.25, 768, "base 1.0 KiB less 0.25"),
        (None, "N*itemsize", 984, "base 1.0 KiB less N*itemsize"),
        (None, "1 KiB", 0, "base 1.0 KiB less 1 KiB"),
        (None, 0, 1024, "base 1.0 KiB less 0"),
        (0.5, "24 B", 512, "0.5x base 1.0 KiB"),
        (1, "24 B", 1000, "base 1.0 KiB less 24 B"),
    ],
)
def test_a_bound_is_a_limit(
    seen: Measurement, max_ratio: Any, min_saving: Any, limit: int, text: str
) -> None:
    equal = replace(seen, peak_bytes=limit)
    verdict = compared(equal, seen, max_ratio, min_saving)
    assert verdict.outcome is WITHIN
    assert (verdict.budget.limit_bytes, verdict.budget.text) == (limit, text)
    assert verdict.budget.where == "test_a.py:3"
    one_more = replace(seen, peak_bytes=limit + 1)
    assert compared(one_more, seen, max_ratio, min_saving).outcome is OVER


def test_the_metric_is_what_is_compared(seen: Measurement) -> None:
    worse = replace(seen, retained_bytes=257)
    verdict = compared(worse, seen, metric="retained")
    assert verdict.reason == (
        "retained of new, 257 B, is 1.00x of base; allowed 256 B, 1x base 256 B on cpu"
    )


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ({"max_ratio": "half"}, f"max_ratio='half' {RATIO}"),
        ({"max_ratio": True}, f"max_ratio=True {RATIO}"),
        ({"max_ratio": "9" * 65 + "%"}, f"max_ratio='{'9' * 61}...' {RATIO}"),
        ({"max_ratio": -1}, f"max_ratio=-1 {RANGE}"),
        ({"max_ratio": float("nan")}, f"max_ratio=nan {RANGE}"),
        ({"max_ratio": float("inf")}, f"max_ratio=inf {RANGE}"),
        ({"max_ratio": 10**5000}, f"max_ratio=<int of 16610 bits> {RANGE}"),
        (
            {"max_ratio": Fraction(10**5000, 10**5000 - 1)},
            f"max_ratio=<Fraction, its repr raised ValueError> {RANGE}",
        ),
        ({"min_saving": 10**5000}, f"cannot read min_saving <int of 16610 bits>; {SHARE}"),
        (
            {"min_saving": "64 MB"},
            "cannot parse size '64 MB': write '64 MiB' (1 MiB = 1024**2 bytes);"
            " MB is used for both 10**6 and 2**20",
        ),
        ({"min_saving": -1}, f"cannot read min_saving -1; {SHARE}"),
        (
            {"min_saving": 40},
            "cannot read min_saving 40: 40 has no unit; write '40%' or '40 B'",
        ),
        (
            {"min_saving": "O(N)"},
            "min_saving='O(N)' is not a number of bytes; write a share of base ('40%'), a size or a"
            " formula",
        ),
        ({"min_saving": "2 KiB"}, "min_saving='2 KiB' is more than base, 1.0 KiB"),
        ({"min_saving": "101%"}, "min_saving='101%' is more than base, 1.0 KiB"),
    ],
    ids=lambda value: shown(value, 40),
)
def test_a_bound_that_means_nothing_is_refused(
    seen: Measurement, bound: dict[str, Any], text: str
) -> None:
    with pytest.raises(AttnMemError) as error:
        compared(seen, seen, **bound)
    assert str(error.value) == text
    assert error.value.__context__ is None  # no other error is shown before it


def test_a_saving_names_the_symbol_that_it_lacks(seen: Measurement) -> None:
    with pytest.raises(BudgetError, match=r"^symbol 'H' has no value"):
        compared(seen, seen, min_saving="H*N")


NOT_MEASURED = "the base was not measured:"


@pytest.mark.parametrize(
    ("changes", "metric", "reason"),
    [
        (
            {"unmeasured": "a thread was started"},
            *("peak", f"{NOT_MEASURED} a thread was started"),
        ),
        (
            {"peak_bytes": None, "missing": "cudaMallocAsync"},
            *("peak", f"{NOT_MEASURED} peak is not measured on cpu: cudaMallocAsync"),
        ),
        (
            {"allocations": 0, "peak_bytes": 0},
            *("peak", f"{NOT_MEASURED} nothing was allocated"),
        ),
        (
            {"imported": "torch.fx", "pinned_bytes": 1},
            "retained",
            f"{NOT_MEASURED} the first use of torch.fx was in it, and imports keep tensors"
            " alive; measure a second run: warmup=1",
        ),
        ({"out_of_memory": "tried to allocate 9 B"}, "peak", "the base ran out of memory"),
        ({}, "reserved", "reserved is not measured on cpu"),  # as of the other
    ],
    ids=["unmeasured", "no number", "nothing", "an import", "out of memory", "neither"],
)
def test_a_base_that_was_not_measured_proves_nothing(
    seen: Measurement, changes: dict[str, Any], metric: str, reason: str
) -> None:
    base = replace(seen, **changes)
    verdict = compared(seen, base, metric=metric)
    assert (verdict.outcome, verdict.reason) == (NOT_ENFORCED, reason)
    assert verdict.measurement == seen
    if "imported" in changes:  # which may have raised what was retained alone
        assert compared(seen, base).outcome is WITHIN


def test_new_that_ran_out_of_memory_is_over_whatever_the_base(seen: Measurement) -> None:
    starved = replace(seen, out_of_memory="tried to allocate 9 B")
    reason = "out of memory on cpu: tried to allocate 9 B with 1.0 KiB held"
    assert compared(starved, seen).outcome is OVER
    verdict = compared(starved, starved)
    assert (verdict.outcome, verdict.reason) == (OVER, reason)


@pytest.mark.parametrize(
    ("new", "base", "ratio"),
    [(512, 1536, Fraction(1, 3)), (0, 1, 0), (1, 0, None), (None, 1, None), (1, None, None)],
)
def test_ratio(seen: Measurement, new: int | None, base: int | None, ratio: Any) -> None:
    pair = (replace(seen, peak_bytes=new), replace(seen, peak_bytes=base))
    assert Comparison(*pair, compared(seen, seen), "peak").ratio == ratio
