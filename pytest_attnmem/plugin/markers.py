"""Reads the budgets that markers give a test."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.registry import backend_of
from ..budgets.budget import BudgetSpec
from ..budgets.parsing import parse
from ..errors import AttnMemError, BudgetError
from ..suggestion import closest
from ..units import shown
from .options import MARKER

if TYPE_CHECKING:
    import pytest


#: The device types of PyTorch, for slips; a plugin of PyTorch may have another.
_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "npu", "mtia")
_METRIC = re.compile(r"metric\s*=\s*[\"'](\w+)")


class MarkerLine:
    """The file and line of a marker, found when they are shown: reading the source takes time."""

    def __init__(self, item: pytest.Item, node: Any, mark: pytest.Mark) -> None:
        self._item, self._node = item, node
        self._metric = str(mark.kwargs.get("metric", "peak"))

    def __str__(self) -> str:
        """The line of the marker, or of the test if that line cannot be found."""
        item = self._item
        try:
            source = inspect.unwrap(self._node.obj)
            lines, start = inspect.getsourcelines(source)
            file = Path(inspect.getsourcefile(source) or item.path)
        except (AttributeError, OSError, TypeError):
            return f"{item.path.name}:{(item.location[1] or 0) + 1}"
        return f"{file.name}:{max(start, 1) + _line(lines, self._metric)}"


#: By the id of a marker: the marker and its budget, which the tests of a parametrization share.
ParsedMarkers = dict[int, tuple[Any, BudgetSpec]]


def read_markers(
    item: pytest.Item, parsed: ParsedMarkers, running: str = "auto"
) -> tuple[BudgetSpec, ...]:
    """Returns the test's budgets, one for each metric; a function's marker hides its class's.

    Each has its line and its backend, which depends on the session's backend, ``running``.
    ``parsed`` has the markers of earlier tests, and gets this one's.

    Raises:
        AttnMemError: a marker cannot be read; the text says where it is.
    """
    specs: dict[str, BudgetSpec] = {}
    places: dict[tuple[str, object], BudgetSpec] = {}
    for node, mark, place in _markers(item):
        where = MarkerLine(item, node, mark)
        try:
            if id(mark) not in parsed:
                parsed[id(mark)] = mark, parse(mark.args, mark.kwargs)
            _, spec = parsed[id(mark)]
            spec = replace(spec, where=where, backend=backend_name(spec, running))
        except AttnMemError as error:
            raise type(error)(f"{MARKER}: {error}   {where}") from error
        closest = specs.setdefault(spec.metric, spec)
        if spec.limits and not closest.limits:
            given = ", ".join(closest.symbols)
            raise BudgetError(
                f"{MARKER}: {f'{given} ' if given else 'a marker '}without a limit hides the limit"
                f" {spec.text!r} of {where}; markers do not merge, so give the limit too"
                f"   {closest.where}"
            )
        other = places.setdefault((spec.metric, place), spec)
        if other is not spec:
            raise BudgetError(
                f"{MARKER}: two markers of metric {spec.metric!r} in one place,"
                f" {other.text or 'no limit'!r} and {spec.text or 'no limit'!r}; keep one"
                f"   {where}"
            )
    return tuple(specs.values())


def _markers(item: pytest.Item) -> Iterator[tuple[Any, Any, object]]:
    """Yields node, marker and the place of the marker in the source, the closest first.

    Pytest lists the markers of a function or class in source order, the markers of a base class
    before its subclass, and the markers of a function before its parameter set.
    """
    own = getattr(getattr(item, "callspec", None), "marks", ())
    for node, group in groupby(item.iter_markers_with_node(MARKER), key=itemgetter(0)):
        defined = getattr(node, "obj", None)
        owners = [*getattr(defined, "__mro__", (defined,))]
        known = {id(mark): place for place, o in enumerate(owners, 1) for mark in _written_on(o)}
        known |= {id(mark): 0 for mark in own}
        late = len(owners) + 1  # added while the session runs
        ranked = [(known.get(id(mark), late), mark) for _, mark in group]
        for rank, mark in sorted(ranked, key=itemgetter(0)):
            yield node, mark, (id(node), rank) if 0 < rank < late else id(mark)


def _written_on(owner: object) -> Iterator[Any]:
    """Yields the markers on a function, a class or a module itself."""
    marks = getattr(owner, "__dict__", {}).get("pytestmark", ())
    for mark in marks if isinstance(marks, (list, tuple)) else [marks]:
        yield getattr(mark, "mark", mark)


def backend_name(spec: BudgetSpec, running: str = "auto") -> str | None:
    """Returns the backend that a marker names, or that measures its device.

    ``running`` is the backend of the session.

    Raises:
        BudgetError: the marker's backend does not measure the marker's device.
    """
    if spec.device is None:
        return spec.backend
    kind, colon, index = spec.device.partition(":")
    meant = "cuda" if kind == "gpu" else closest(kind, _DEVICES, 0.7)
    if kind not in _DEVICES and meant:
        raise BudgetError(
            f"unknown device {shown(spec.device)}; write 'cuda', 'cuda:1' or 'cpu'; did you mean"
            f" '{meant}{colon}{index}'?"
        )
    fitting = backend_of(spec.device)
    if spec.backend in (None, fitting.partition(":")[0]):
        return fitting if spec.backend else backend_of(spec.device, running)
    raise BudgetError(
        f"backend={spec.backend!r} does not measure device={spec.device!r}; give one of the two"
    )


def _line(lines: list[str], metric: str) -> int:
    """Returns the index of the marker with that metric; of the first marker if none has it."""
    listed = (place for place, line in enumerate(lines) if line.lstrip().startswith("pytestmark"))
    first = next(listed, 0)  # of a module or a class; lines above it belong to others
    starts = [
        place for place, line in enumerate(lines) if place >= first and f"mark.{MARKER}" in line
    ]
    for start, end in pairwise([*starts, len(lines)]):
        named = _METRIC.search("".join(lines[start:end]))
        if (named[1] if named else "peak") == metric:
            return start
    return starts[0] if starts else 0
