"""Runs a test under a tracker, at its own and at other sizes: tensors with symbolic shapes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..backends.registry import larger_is_free
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..measurement.peak_watch import PeakWatch
from ..measurement.protocol import SearchTime
from ..measurement.symbolic_shapes import Elsewhere, proved
from .item_arguments import further_arguments, sized_arguments
from .plan import PLAN, values_of
from .session import SESSION
from .traced_rerun import TracedRerun

if TYPE_CHECKING:
    import pytest

    from ..api.conclusion import Part
    from ..backends.primed_backend import PrimedBackend


class TracedRuns:
    """Traced runs of a test, made on first use; one other size of each symbol proves the shapes."""

    def __init__(self, item: pytest.Item, failed: bool, *, empty_caches: bool = False) -> None:
        """``empty_caches`` runs the test as a first run, which fills them."""
        self._item = item
        self._search = SearchTime()
        self._empty_caches = empty_caches
        self._own = TracedRerun(item, failed, search=self._search, empty_caches=empty_caches)
        self._elsewhere: dict[str, list[tuple[str, int, TracedRerun]]] = {}  # by device

    def measurement_of(self, part: Part) -> Measurement:
        """Returns the measurement of a region, with who holds the tensors at its peak.

        Raises:
            AttnMemError: the second run failed, or did not reach the region.
        """
        if part.primed is None:
            raise AttnMemError(f"{part.name} does not run again with its test")
        return self.measured(part.name, part.primed, holders=True)

    def measured(self, name: str, primed: PrimedBackend, *, holders: bool = False) -> Measurement:
        """Returns the measurement of a region, or with ``""`` of the test's body.

        With ``holders``, it has who holds the tensors at its peak.

        Raises:
            AttnMemError: this run did not reach the region, or it failed and the first did not.
        """
        own = self._own.measured(name, primed)
        return self._proved(name, self._with_holders(own, primed) if holders else own, primed)

    def without_holders(self, name: str, primed: PrimedBackend) -> Measurement:
        """Returns the measurement as above; from now on nobody is searched for."""
        self._search.left = 0.0
        return self.measured(name, primed)

    def _with_holders(self, own: Measurement, primed: PrimedBackend) -> Measurement:
        """Returns the measurement with who holds the tensors at its peak, from one more run."""
        whole = self._own.measured("", primed).tensors
        if own.tensors is None or whole is None or self._search.left <= 0:
            return own
        at_end = zip(own.tensors.at_end, own.left, strict=True)
        found = {number: one.holder for number, one in at_end if one.holder}
        watch = PeakWatch(whole, [n for n in own.tensors.at_peak if n not in found], self._search)
        if watch.needed:
            again = TracedRerun(self._item, search=watch, empty_caches=self._empty_caches)
            with suppress(AttnMemError):
                again.measured("", primed)
            gc.collect()  # the search saw frames that run, and frames may be in cycles
        found |= watch.found
        at_peak = zip(own.tensors.at_peak, own.held, strict=True)
        held = (replace(one, holder=found.get(number, "")) for number, one in at_peak)
        return replace(own, held=tuple(held))

    @property
    def _arguments(self) -> Mapping[str, str]:
        """Symbol → argument; a recording varies the usual sizes alone, as its forms do."""
        recorded = self._item.config.stash[SESSION].settings.update
        further = {} if recorded else further_arguments(self._item)
        return {**sized_arguments(self._item), **further}

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that can be varied: of the test's arguments and of its inputs."""
        values = values_of(self._item)
        named = {symbol: values[name] for symbol, name in self._arguments.items()}
        return {**self._item.stash[PLAN].memory.input_sizes, **named}

    def _proved(self, name: str, own: Measurement, primed: PrimedBackend) -> Measurement:
        device = primed.backend.device
        if device not in self._elsewhere:
            self._elsewhere[device] = [*self._runs(primed)]
        elsewhere = []
        for symbol, size, run in self._elsewhere[device]:
            try:
                there = run.measured(name, primed)
            except AttnMemError:
                continue
            if there.tensors is not None:
                elsewhere.append(Elsewhere(symbol, size, there.tensors))
        return proved(own, self.sizes, elsewhere)

    def _runs(self, primed: PrimedBackend) -> Iterator[tuple[str, int, TracedRerun]]:
        for symbol, own in self.sizes.items():
            other = _other(own, primed)
            if other is None:
                continue
            arguments = {self._arguments[symbol]: other} if symbol in self._arguments else {}
            size = {symbol: (own, other)}
            run = TracedRerun(self._item, sizes=size, arguments=arguments)
            try:
                run.measured("", primed)
            except AttnMemError:
                continue
            yield symbol, other, run


def _other(own: int, primed: PrimedBackend) -> int | None:
    """Returns a smaller size, or a larger size if nothing is computed.

    A size of 1 is the last resort: many operators have a special path for it.
    """
    if own > 3:
        return own // 2
    if larger_is_free(primed.backend):
        return own + 1
    return own - 1 if own > 1 else None
