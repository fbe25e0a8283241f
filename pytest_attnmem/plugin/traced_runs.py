"""Runs a test under a tracker, at its own and at other sizes: tensors with symbolic shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..backends.registry import larger_is_free
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..measurement.symbolic_shapes import Elsewhere, proved
from .item_arguments import sized_arguments
from .size_reads import given
from .traced_rerun import TracedRerun

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..api.conclusion import Part
    from ..backends.primed_backend import PrimedBackend


class TracedRuns:
    """Traced runs of a test, made on first use; one other size of each symbol proves the shapes."""

    def __init__(
        self, item: pytest.Item, memory: AttnMem, failed: bool, *, empty_caches: bool = False
    ) -> None:
        """``empty_caches`` runs the test as a first run, which fills them."""
        self._item = item
        self._memory = memory
        self._own = TracedRerun(item, memory, failed, empty_caches=empty_caches)
        self._elsewhere: dict[str, list[tuple[str, int, TracedRerun]]] = {}  # by device

    def of(self, part: Part) -> Measurement:
        """Returns the measurement of the body, or of a region.

        Raises:
            AttnMemError: the second run failed, or did not reach the region.
        """
        if part.primed is None:
            raise AttnMemError(f"{part.name} does not run again with its test")
        return self.region(part.name, part.primed) if part.name else self.whole(part.primed)

    def whole(self, primed: PrimedBackend) -> Measurement:
        """Returns the measurement of the test's body.

        Raises:
            AttnMemError: this run failed, but the first did not.
        """
        return self._proved("", self._own.whole(primed), primed)

    def region(self, name: str, primed: PrimedBackend) -> Measurement:
        """Returns the measurement of a region.

        Raises:
            AttnMemError: the second run did not reach the region.
        """
        return self._proved(name, self._own.region(name, primed), primed)

    @property
    def _arguments(self) -> Mapping[str, str]:
        return sized_arguments(self._item)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that can be varied: of the test's arguments and of its inputs."""
        values = getattr(self._item, "funcargs", {})
        named = {symbol: values[name] for symbol, name in self._arguments.items()}
        return {**self._memory.input_sizes, **named}

    def _proved(self, name: str, own: Measurement, primed: PrimedBackend) -> Measurement:
        device = primed.backend.device
        if device not in self._elsewhere:
            self._elsewhere[device] = [*self._runs(primed)]
        elsewhere = []
        for symbol, size, run in self._elsewhere[device]:
            try:
                there = run.region(name, primed) if name else run.whole(primed)
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
            run = TracedRerun(self._item, self._memory, False, {symbol: (own, other)})
            with given(self._item, arguments):
                try:
                    run.whole(primed)
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
