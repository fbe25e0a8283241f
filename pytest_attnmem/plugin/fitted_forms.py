"""Fits closed forms to the memory of a test, from runs at other sizes of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..backends.registry import larger_is_free
from ..budgets.sizes_to_try import smaller
from ..errors import AttnMemError, BudgetError
from ..formulas.interpolation import Point, Sample, fit, off_axes
from ..formulas.polynomial import Polynomial
from .item_arguments import sized_arguments
from .size_sweep import SizeSweep

if TYPE_CHECKING:
    import pytest

    from ..backends.primed_backend import PrimedBackend

#: A region of a test, or "" for its body, and a metric.
Row = tuple[str, str]

#: The number of other sizes to run a small size at, some of them larger.
_OTHERS = 4


class _Axis(NamedTuple):
    """Runs that differ in one symbol."""

    runs: Mapping[int, Mapping[Row, int]]
    terms: int
    """The most terms of a form along the symbol; 0 if no row has a form."""


class FormFitter:
    """Runs a test at other sizes, and fits each of its rows exactly.

    If tensors have values, no run is larger than the test itself.
    """

    def __init__(
        self,
        item: pytest.Item,
        primed: PrimedBackend,
        *,
        settled: bool = False,
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        """``settled`` says that the rows are of a run that found caches filled.

        ``arguments`` are those to vary, by their symbols; None for those with usual names.
        """
        arguments = sized_arguments(item) if arguments is None else arguments
        self._sweep = SizeSweep(item, primed, arguments)
        self._sweep.warmup += settled
        self._upward = larger_is_free(primed.backend)
        self._own = {symbol: self._sweep.size(symbol) for symbol in arguments}

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the test, of the arguments that can be varied."""
        return self._own

    def fit(self, rows: Mapping[Row, int]) -> dict[Row, Polynomial]:
        """Returns the form of each row that has one; ``rows`` has the bytes at the test's sizes."""
        axes: dict[str, _Axis] = {}
        for symbol in self._own:
            if (axis := self._axis(symbol, rows)) is None:
                continue
            if not axis.terms:
                return {}  # a form in the other symbols would hold only at this symbol's size
            axes[symbol] = axis
        if not axes:
            return {}
        base = tuple(self._own[symbol] for symbol in axes)
        lines = tuple(
            tuple((*base[:place], size, *base[place + 1 :]) for size in axis.runs)
            for place, axis in enumerate(axes.values())
        )
        along = zip(lines, axes.values(), strict=True)
        runs = {
            point: run
            for line, axis in along
            for point, run in zip(line, axis.runs.values(), strict=True)
        }
        try:
            beside = self._beside(axes, rows) if len(axes) > 1 else {}
        except AttnMemError:
            return {}
        where = Sample((*axes,), base, lines, (*beside,))
        forms = {}
        for row in rows:
            values = {point: run[row] for point, run in (runs | beside).items() if row in run}
            form = fit(where, values) if len(values) == len(where.points) else None
            if form is not None and _is_sum(form):
                forms[row] = form
        return forms

    def _axis(self, symbol: str, rows: Mapping[Row, int]) -> _Axis | None:
        """Returns the rows at each size of a symbol; None if the test does not run at others."""
        own = self._own[symbol]
        runs = {own: dict(rows)}
        try:
            for size in self._sizes(own):
                runs[size] = self._run({symbol: size}, rows)
        except AttnMemError:
            return None
        line = Sample((symbol,), (own,), (tuple((size,) for size in sorted(runs)),), ())
        terms = 0
        for row in rows:
            values: dict[Point, int] = {
                (size,): run[row] for size, run in runs.items() if row in run
            }
            form = fit(line, values) if len(values) == len(runs) else None
            terms = max(terms, len(form.terms) if form is not None else 0)
        return _Axis(dict(sorted(runs.items())), terms)

    def _sizes(self, own: int) -> tuple[int, ...]:
        try:  # never 1, for which many operators have a special path
            return tuple(size for size in smaller(own) if size > 1)
        except BudgetError:
            if not self._upward:
                raise
            below = (*range(2, own),)
            return (*below, *range(own + 1, own + 1 + _OTHERS - len(below)))

    def _beside(
        self, axes: Mapping[str, _Axis], rows: Mapping[Row, int]
    ) -> dict[Point, dict[Row, int]]:
        """Runs the test at sizes that differ in more than one symbol."""
        own = tuple(self._own[symbol] for symbol in axes)
        sizes = [[*axis.runs] for axis in axes.values()]
        chosen = off_axes(own, sizes, [axis.terms for axis in axes.values()])
        return {p: self._run(dict(zip(axes, p, strict=True)), rows) for p in chosen}

    def _run(self, sizes: Mapping[str, int], rows: Mapping[Row, int]) -> dict[Row, int]:
        measured = self._sweep.run_at(sizes).measurements
        return {
            (region, metric): measured[region].known(metric)
            for region, metric in rows
            if region in measured
        }


def _is_sum(form: Polynomial) -> bool:
    """Returns True if no padded term is negative: such a form fits only by chance."""
    return all(
        value > 0 or all(atom.isidentifier() for atom, _ in monomial)
        for monomial, value in form.terms.items()
    )
