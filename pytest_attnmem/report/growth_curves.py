"""The data of growth charts: measured points, the curve through them, and the budget's curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..budgets.formula_and_contract import split
from ..budgets.growth_fit import Growth
from ..errors import AttnMemError
from ..formulas.exact_arithmetic import MAX_BITS
from ..formulas.polynomial import expand
from ..symbols.names import DEFAULTS
from .cells import own_sizes
from .record import Record

#: The fewest points of a chart, because a line fits any two points.
_ENOUGH = 3
_STEPS = 16
_BEYOND = 4
"""Curves continue to this multiple of the largest measured size."""

MOST = 32
"""The most sizes in a chart; the smallest and the largest are always drawn."""

Points = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Series:
    """The rows of one test that differ in the size of one symbol."""

    points: Points
    limits: list[tuple[int, int | None]]
    formula: str
    """The polynomial through the points; empty if there is none."""
    count: int
    """The number of sizes, drawn or not."""

    @property
    def note(self) -> str:
        """Returns the source of the points."""
        some = f"of {self.count:,} " if self.count > len(self.points) else ""
        return f"{some}from the test's own parameters"


def series(records: Iterable[Record]) -> dict[tuple[Any, ...], Series]:
    """Returns the series of tests with parameters, by the key that :func:`_alike` returns."""
    found: dict[tuple[Any, ...], dict[int, Record]] = {}
    for row in records:
        if row.value is not None:
            for symbol, size in _own(row).items():
                if size > 0 and (alike := _alike(row, symbol)):
                    found.setdefault(alike, {})[size] = row
    return {alike: _series(alike[0], rows) for alike, rows in found.items() if len(rows) >= _ENOUGH}


def _series(symbol: str, rows: Mapping[int, Record]) -> Series:
    """Returns the series of rows, which share one fit: its cost is quadratic in their number."""
    every = sorted(rows)
    last = len(every) - 1
    steps = min(last, MOST - 1)
    sizes = [every[step * last // steps] for step in range(steps + 1)]
    points = [(size, rows[size].value or 0) for size in sizes]
    fit = Growth({symbol: tuple(sizes)}, {(n,): peak for n, peak in points})
    limits = [(size, rows[size].limit_bytes) for size in sizes]
    return Series(points, limits, str(fit.polynomial or ""), len(every))


def shared(row: Record, found: Mapping[tuple[Any, ...], Series]) -> tuple[Any, ...] | None:
    """Returns a key that rows with the same charts share, or None if no other row has them."""
    alike = tuple(key for symbol in _own(row) if (key := _alike(row, symbol)) in found)
    return (alike, row.budget, row.limit_bytes) if alike and not row.growth else None


def growths(row: Record, found: Mapping[tuple[Any, ...], Series]) -> list[dict[str, Any]]:
    """Returns a chart for each symbol: of the sizes that a contract ran, or of the parameters."""
    charts = [
        _chart(row, symbol, points, growth["formula"] or "", f"{others}run to see it grow")
        for growth in filter(_readable, row.growth)
        for symbol, points, others in _slices(growth)
    ]
    for symbol in _own(row):
        alike = found.get(_alike(row, symbol) or ())
        if alike and symbol not in {chart["symbol"] for chart in charts}:
            chart = _chart(row, symbol, alike.points, alike.formula, alike.note)
            if not chart["budget"] and None not in dict(alike.limits).values():
                chart["budget"] = alike.limits
            charts.append(chart)
    return charts


def _chart(row: Record, symbol: str, points: Points, formula: str, note: str) -> dict[str, Any]:
    """Returns the points, the curve through them and the curve of the budget."""
    lowest, highest = points[0][0], points[-1][0]
    top = highest * _BEYOND if formula else highest
    steps = {round(lowest * (top / lowest) ** (step / _STEPS)) for step in range(_STEPS + 1)}
    sizes = sorted(steps | {size for size, _ in points})
    chart: dict[str, Any] = {"symbol": symbol, "points": points, "formula": formula, "note": note}
    chart["fit"] = _curve(formula, symbol, sizes, {}) if formula else []
    chart["budget"], chart["contract"] = [], None
    if row.is_contract:
        chart["contract"] = _allowed(row.budget, symbol)
    elif row.limit_bytes is not None:
        at_home = _curve(row.budget, symbol, [row.shape.get(symbol, 0)], row.shape)
        # Else the budget is not a formula: a dict, a model or a callable.
        if at_home and at_home[0][1] == row.limit_bytes:
            chart["budget"] = _curve(row.budget, symbol, sizes, row.shape)
    return chart


def _allowed(contract: str, symbol: str) -> int | None:
    """Returns the power of *symbol* that a contract allows; None if it does not name the symbol.

    A contract that is added to a formula allows no power of the whole peak.
    """
    try:
        formula, parsed = split(contract)
    except AttnMemError:
        return None
    return parsed.degree(symbol) if symbol in parsed.symbols and not formula else None


def _curve(text: str, symbol: str, sizes: Sequence[int], known: Mapping[str, int]) -> Points:
    """Returns the formula's values along *symbol*; none if it has other unknown symbols."""
    varying = {symbol, *(name for name, other in DEFAULTS.items() if other == symbol)}
    varying = {name for name in varying if known.get(name) == known.get(symbol)}
    others = {name: size for name, size in known.items() if name not in varying}
    try:
        curve = expand(text, others)  # once for all sizes
        return [(size, int(curve.value(dict.fromkeys(varying, size)))) for size in sizes]
    except (AttnMemError, ValueError, ArithmeticError):
        return []


def _readable(growth: Any) -> bool:
    """Returns True if the growth has sizes and peaks; damaged JSON does not."""
    match growth:
        case {"sizes": dict(grid), "peaks": list(peaks), "formula": str() | None}:
            axes = [*grid.values(), peaks]
            return all(isinstance(axis, list) and all(map(_whole, axis)) for axis in axes)
    return False


def _whole(value: object) -> bool:
    return isinstance(value, int) and not abs(value) >> MAX_BITS


def _slices(growth: Mapping[str, Any]) -> Iterable[tuple[str, Points, str]]:
    """Yields the points along each symbol of a grid, with all other symbols at their largest.

    The last symbol of the grid varies fastest.
    """
    grid, peaks = growth["sizes"], growth["peaks"]
    tried = [size for sizes in grid.values() for size in sizes]
    if not peaks or len(peaks) != prod(map(len, grid.values())) or min(tried, default=0) < 1:
        return  # not a grid: JSON of another program
    stride = len(peaks)
    for symbol, sizes in grid.items():
        stride //= len(sizes)
        first = len(peaks) - 1 - stride * (len(sizes) - 1)
        others = [f"{name}={max(given)}, " for name, given in grid.items() if name != symbol]
        yield symbol, [*zip(sizes, peaks[first::stride], strict=False)], "".join(others)


def _own(row: Record) -> dict[str, int]:
    """Returns the sizes that are not the default of another symbol."""
    return {name: size for name, size in own_sizes(row.shape).items() if name != "itemsize"}


def _alike(row: Record, symbol: str) -> tuple[Any, ...] | None:
    """Returns a key that rows of one test share if their parameters differ only in this symbol."""
    test, bracket, parameters = row.nodeid.partition("[")
    sizes = _own(row)
    size = str(sizes.pop(symbol, ""))
    parts = parameters.removesuffix("]").split("-")
    if not bracket or size not in parts:
        return None
    others = tuple(symbol if part == size else part for part in parts)
    return symbol, test, others, row.region, row.metric, row.place, frozenset(sizes.items())
