"""Runs of a test under a tracker, at its own sizes and at others: who held memory, in symbols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..measurement.symbolic_shapes import Elsewhere, proved
from .fitted_forms import sized_arguments
from .size_reads import given
from .traced_rerun import TracedRerun

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..api.conclusion import Part
    from ..backends.primed_backend import PrimedBackend


class TracedRuns:
    """Runs that are made when first asked for; one other size of each symbol proves the shapes."""

    def __init__(self, item: pytest.Item, memory: AttnMem, failed: bool) -> None:
        self._item = item
        self._memory = memory
        self._own = TracedRerun(item, memory, failed)
        self._elsewhere: dict[str, list[tuple[str, int, TracedRerun]]] = {}  # by device

    def of(self, part: Part) -> Measurement:
        """Returns the measurement of the body, or of a region.

        Raises:
            AttnMemError: the second run did not get there, or failed.
        """
        if part.primed is None:
            raise AttnMemError(f"{part.name} does not run again with its test")
        return self.region(part.name, part.primed) if part.name else self.whole(part.primed)

    def whole(self, instrument: PrimedBackend) -> Measurement:
        """Returns the measurement of the test's body.

        Raises:
            AttnMemError: this run failed where the first did not; the text says how.
        """
        return self._proved("", self._own.whole(instrument), instrument)

    def region(self, name: str, instrument: PrimedBackend) -> Measurement:
        """Returns the measurement of a region.

        Raises:
            AttnMemError: the second run did not get there.
        """
        return self._proved(name, self._own.region(name, instrument), instrument)

    @property
    def _arguments(self) -> Mapping[str, str]:
        return sized_arguments(self._item)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that can be others: of the test's arguments, and of the inputs it makes."""
        values = getattr(self._item, "funcargs", {})
        named = {symbol: values[name] for symbol, name in self._arguments.items()}
        return {**self._memory.input_sizes, **named}

    def _proved(self, name: str, own: Measurement, instrument: PrimedBackend) -> Measurement:
        device = instrument.backend.device
        if device not in self._elsewhere:
            self._elsewhere[device] = [*self._runs(instrument)]
        seen = []
        for symbol, size, run in self._elsewhere[device]:
            try:
                there = run.region(name, instrument) if name else run.whole(instrument)
            except AttnMemError:
                continue
            if there.lives is not None:
                seen.append(Elsewhere(symbol, size, there.lives))
        return proved(own, self.sizes, seen)

    def _runs(self, instrument: PrimedBackend) -> Iterator[tuple[str, int, TracedRerun]]:
        for symbol, own in self.sizes.items():
            other = _other(own, instrument)
            if other is None:
                continue
            arguments = {self._arguments[symbol]: other} if symbol in self._arguments else {}
            run = TracedRerun(self._item, self._memory, False, {symbol: (own, other)})
            with given(self._item, arguments):
                try:
                    run.whole(instrument)
                except AttnMemError:
                    continue
            yield symbol, other, run


def _other(own: int, instrument: PrimedBackend) -> int | None:
    """Returns a smaller size; a larger one only where nothing is computed.

    A size of 1 is the last resort: many operators take a shorter way there.
    """
    if own > 3:
        return own // 2
    if not instrument.backend.computes:
        return own + 1
    return own - 1 if own > 1 else None
