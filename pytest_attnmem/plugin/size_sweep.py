"""Runs a test at other sizes of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..api.limits import device_facts
from ..backends.registry import larger_is_free
from ..errors import AttnMemError, BudgetError, ProgramRefused, StartAgain, stops
from ..measurement.measurement import Measurement
from ..measurement.window_stack import window
from ..symbols.attention_shape import AttentionShape
from ..units import format_values, shown
from .another_run import another_run, begin_again, reset_item
from .fresh_fixtures import given
from .item_arguments import arguments
from .plan import PLAN, values_of
from .ranks import meshes

if TYPE_CHECKING:
    import pytest

    from ..backends.primed_backend import PrimedBackend


class SizedRun(NamedTuple):
    """A run of a test at some sizes."""

    measurements: Mapping[str, Measurement]
    """The measurement of the body, by ``""``, and of its regions, by name."""
    shape: AttentionShape
    """The symbols of the run."""


class SizeSweep:
    """Runs a test's body at other sizes; regions and checks in it do not raise."""

    def __init__(self, item: pytest.Item, primed: PrimedBackend, names: Mapping[str, str]) -> None:
        """``names`` has, by symbol, the name of the argument with its size."""
        self._item = item
        self._memory = item.stash[PLAN].memory
        self._primed = primed
        self._arguments = names
        self.warmup = item.stash[PLAN].warmup
        """The number of runs at a size before the measured one."""
        self.begin: Callable[[pytest.Item], None] = begin_again
        """Puts the generators of random numbers back before each run."""

    @property
    def upward(self) -> bool:
        """True if larger sizes are free, because no tensor has memory."""
        return larger_is_free(self._primed.backend)

    def size(self, symbol: str) -> int:
        """Returns the test's own size of a symbol.

        Raises:
            BudgetError: the argument is not a size.
        """
        name = self._arguments[symbol]
        size = values_of(self._item).get(name)
        if not isinstance(size, int) or isinstance(size, bool):
            raise BudgetError(f"{name}={shown(size)} is not a size to vary")
        return size

    def run_at(
        self, sizes: Mapping[str, int], *, evidence: bool = False, trace: bool = False
    ) -> SizedRun:
        """Returns the measurements of the test, by ``""``, and of its regions, by name.

        *sizes* has other sizes by symbol. The test runs as if for the first time, after as many
        warm-ups at these sizes as its markers say. ``evidence`` adds a timeline of every tensor if
        the gauge sees tensors; ``trace`` measures with a tracker instead of the gauge.

        Raises:
            AttnMemError: the test does not run at these sizes.
        """
        with self.at(sizes) as run:
            return run(evidence, trace)

    @contextmanager
    def at(self, sizes: Mapping[str, int]) -> Iterator[Callable[[bool, bool], SizedRun]]:
        """Yields a function that runs the test; each run finds what the run before it left.

        Raises:
            AttnMemError: the test does not run at these sizes.
        """
        other = {self._arguments[symbol]: size for symbol, size in sizes.items()}
        with another_run(self._item) as swallowed, given(self._item, other):
            run_once = partial(self._run, sizes, swallowed)

            def run(evidence: bool, trace: bool) -> SizedRun:
                try:
                    return run_once(evidence, trace)
                except StartAgain:
                    return run_once(evidence, trace)

            for _ in range(self.warmup):
                run(False, False)
            yield run

    def _run(
        self,
        sizes: Mapping[str, int],
        swallowed: Sequence[BaseException],
        evidence: bool,
        trace: bool,
    ) -> SizedRun:
        opened = None
        self.begin(self._item)
        with self._memory.dry_run(arguments=arguments(self._item)) as regions:
            try:
                reset_item(self._item)
                # Reserved bytes need an empty cache; for other metrics it makes no difference.
                with window(
                    self._primed.backend,
                    "reserved",
                    trace=trace,
                    evidence=evidence,
                    most=sys.maxsize,
                ) as opened:
                    self._item.runtest()
                if swallowed:  # a subtest ended early, so the bytes are not of a whole run
                    raise swallowed[0]
            except stops():
                raise
            except (AttnMemError, StartAgain):
                raise
            except ProgramRefused as refused:  # of a run besides the test's own
                raise AttnMemError(str(refused)) from refused
            except BaseException as error:
                raised = f"the test raised {shown(error, 160)}"
                if not sizes:
                    raise BudgetError(f"{raised} when it ran again") from error
                raise BudgetError(
                    f"{raised} at {format_values(sizes)}, where its growth is measured; let it"
                    " take other sizes"
                ) from error
            measured = opened.measurement
            if measured is None:
                raise BudgetError(f"nothing was measured at {format_values(sizes)}")
            shape = self._memory.shape(device_facts(measured), meshes(self._item))
        return SizedRun({**regions, "": measured}, shape)
