"""What charts of growth draw: measured sizes, the curve through them, and what they are held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..budgets.growth_contract import parse_contract
from ..budgets.growth_fit import Growth
from ..errors import AttnMemError
from ..formulas.exact_arithmetic import MAX_BITS
from ..formulas.polynomial import expand
from ..symbols.names import DEFAULTS
from .record import Record

#: Two points are a line whatever they are.
_ENOUGH = 3
_STEPS = 16
_BEYOND = 4
"""Curves go on to so many times the largest size measured."""

MOST = 32
"""Of more sizes so many are drawn, the smallest and the largest among them."""

Points = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Series:
    """The rows of one test that differ in the size of one symbol."""

    points: Points
    limits: list[tuple[int, int | None]]
    formula: str
    """The polynomial through the points; empty where there is none."""
    count: int
    """How many sizes there are, drawn or not."""

    @property
    def note(self) -> str:
        """Where they are from."""
        some = f"of {self.count:,} " if self.count > len(self.points) else ""
        return f"{some}from the test's own parameters"


def series(records: Iterable[Record]) -> dict[tuple[Any, ...], Series]:
    """What can be drawn of tests with parameters, keyed as :func:`_alike` does: by symbol first."""
    found: dict[tuple[Any, ...], dict[int, Record]] = {}
    for row in records:
        if row.value is not None:
            for symbol, size in _own(row).items():
                if size > 0 and (alike := _alike(row, symbol)):
                    found.setdefault(alike, {})[size] = row
    return {alike: _series(alike[0], rows) for alike, rows in found.items() if len(rows) >= _ENOUGH}


def _series(symbol: str, rows: Mapping[int, Record]) -> Series:
    """One fit for all of them: it takes the square of their number."""
    every = sorted(rows)
    last = len(every) - 1
    steps = min(last, MOST - 1)
    sizes = [every[step * last // steps] for step in range(steps + 1)]
    points = [(size, rows[size].value or 0) for size in sizes]
    fit = Growth({symbol: tuple(sizes)}, {(n,): peak for n, peak in points})
    limits = [(size, rows[size].limit_bytes) for size in sizes]
    return Series(points, limits, str(fit.polynomial or ""), len(every))


def shared(row: Record, found: Mapping[tuple[Any, ...], Series]) -> tuple[Any, ...] | None:
    """The same for rows that have the same charts; ``None`` where each has its own."""
    alike = tuple(key for symbol in _own(row) if (key := _alike(row, symbol)) in found)
    return (alike, row.budget, row.limit_bytes) if alike and not row.growth else None


def growths(row: Record, found: Mapping[tuple[Any, ...], Series]) -> list[dict[str, Any]]:
    """A chart for each symbol: of the sizes a contract tried, or of the test's own parameters."""
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
    """Points, the curve through them and the one they are held to."""
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
        if at_home and at_home[0][1] == row.limit_bytes:  # not a dict's, a model's or a callable's
            chart["budget"] = _curve(row.budget, symbol, sizes, row.shape)
    return chart


def _allowed(contract: str, symbol: str) -> int | None:
    """The power of *symbol* that a contract allows; ``None`` where it says nothing of it."""
    try:
        parsed = parse_contract(contract)
    except AttnMemError:
        return None
    return parsed.degree(symbol) if symbol in parsed.symbols else None


def _curve(text: str, symbol: str, sizes: Sequence[int], known: Mapping[str, int]) -> Points:
    """The formula's values along *symbol*; none where it is no formula of what is known."""
    varying = {symbol, *(name for name, other in DEFAULTS.items() if other == symbol)}
    varying = {name for name in varying if known.get(name) == known.get(symbol)}
    others = {name: size for name, size in known.items() if name not in varying}
    try:
        curve = expand(text, others)  # once for all sizes
        return [(size, int(curve.value(dict.fromkeys(varying, size)))) for size in sizes]
    except (AttnMemError, ValueError, ArithmeticError):
        return []


def _readable(growth: Any) -> bool:
    """Whether it is sizes and peaks, and no damaged JSON."""
    match growth:
        case {"sizes": dict(grid), "peaks": list(peaks), "formula": str() | None}:
            axes = [*grid.values(), peaks]
            return all(isinstance(axis, list) and all(map(_whole, axis)) for axis in axes)
    return False


def _whole(value: object) -> bool:
    return isinstance(value, int) and not abs(value) >> MAX_BITS


def _slices(growth: Mapping[str, Any]) -> Iterable[tuple[str, Points, str]]:
    """Along each symbol of a grid, the others at their largest; the grid's last varies fastest."""
    grid, peaks = growth["sizes"], growth["peaks"]
    tried = [size for sizes in grid.values() for size in sizes]
    if not peaks or len(peaks) != prod(map(len, grid.values())) or min(tried, default=0) < 1:
        return  # no grid, but somebody else's JSON
    stride = len(peaks)
    for symbol, sizes in grid.items():
        stride //= len(sizes)
        first = len(peaks) - 1 - stride * (len(sizes) - 1)
        others = [f"{name}={max(given)}, " for name, given in grid.items() if name != symbol]
        yield symbol, [*zip(sizes, peaks[first::stride], strict=False)], "".join(others)


def _own(row: Record) -> dict[str, int]:
    """The sizes that do not follow from another."""
    return {
        name: size
        for name, size in row.shape.items()
        if name != "itemsize" and size != row.shape.get(DEFAULTS.get(name, ""))
    }


def _alike(row: Record, symbol: str) -> tuple[Any, ...] | None:
    """The same for two rows of one test whose parameters differ in this symbol alone."""
    test, bracket, parameters = row.nodeid.partition("[")
    sizes = _own(row)
    size = str(sizes.pop(symbol, ""))
    parts = parameters.removesuffix("]").split("-")
    if not bracket or size not in parts:
        return None
    others = tuple(symbol if part == size else part for part in parts)
    return symbol, test, others, row.region, row.metric, row.place, frozenset(sizes.items())
