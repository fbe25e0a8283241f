"""Scaling factors, as what they mean."""

from fractions import Fraction

import pytest

from pytest_attnmem.sweep.markdown_report import (
    growth_steps,
    largest_that_fits,
    smallest_that_does_not,
)
from pytest_attnmem.sweep.results import OOM

MIB = 1 << 20


def test_quadratic_is_sixteen_fold_per_four_times_the_length(row, sweep):
    first, second = growth_steps(
        sweep(row("a", 64, before=3), row("a", 256, before=48), row("a", 512, before=192))
    )
    assert (first.shorter, first.longer, first.factor, first.exponent) == (64, 256, 16, 2.0)
    assert (second.factor, second.exponent) == (4, 2.0)


def test_workspaces_do_not_grow(row, sweep):
    made = sweep(*(row("a", N, before=N + 16, workspace_bytes=16 * MIB) for N in (32, 64)))
    (step,) = growth_steps(made)
    assert (step.factor, step.without_workspaces) == (Fraction(80, 48), 2)
    assert step.exponent == 1.0


def test_the_documents_factors_were_divided_by_four(row, sweep):
    """2.07 "per 4x seq_len" is the mean of 4.1 / 4 and 12.4 / 4, at d = 16."""
    document = {16: ((22.3, 92.3, 1148.6), 2.07), 128: ((34.6, 141.3, 1344.6), 1.70)}
    for sizes, printed in document.values():
        tenths = enumerate((round(10 * size) for size in sizes), 4)
        found = growth_steps(sweep(*(row("a", 4**n, before=size) for n, size in tenths)))
        mean = sum(float(step.factor) / 4 for step in found) / 2
        assert round(mean, 2) == printed


def test_only_lengths_with_numbers_count(row, sweep):
    assert [*growth_steps(sweep(row("a", 64), row("a", 128, before=1)))] == []
    (step,) = growth_steps(sweep(row("a", 64, before=1), row("a", 128), row("a", 256, before=2)))
    assert (step.shorter, step.longer) == (64, 256)
    nothing = row("a", 64, before=1, workspace_bytes=MIB)
    assert [*growth_steps(sweep(nothing, row("a", 128, before=2)))] == []
    # Without a backward pass it is the peak.
    (step,) = growth_steps(sweep(*(row("a", N, peak=N, backward=False) for N in (32, 64))))
    assert step.exponent == pytest.approx(1)


def test_the_largest_and_the_smallest(row):
    rows = [row("a", N, d, status="ok" if N < 128 else OOM) for d in (16, 8) for N in (64, 32, 128)]
    assert (largest_that_fits(rows).N, largest_that_fits(rows).d) == (64, 16)
    assert (smallest_that_does_not(rows).N, smallest_that_does_not(rows).d) == (128, 8)
    assert largest_that_fits([]) is smallest_that_does_not(rows[:2]) is None
