"""A test at other sizes of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import AttnMemError, BudgetError, StartAgain, stops
from ..measurement.measurement import Measurement
from ..measurement.window_stack import window
from ..symbols.names import ALIASES
from ..units import shown
from .size_reads import given
from .traced_rerun import reset_item, suppress_reporting

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend


class SizeSweep:
    """Runs a test's body at other sizes; regions and checks in it do not raise."""

    def __init__(self, item: pytest.Item, memory: AttnMem, instrument: PrimedBackend) -> None:
        self._item = item
        self._memory = memory
        self._instrument = instrument

    @property
    def upward(self) -> bool:
        """Returns whether larger sizes cost nothing, because no tensor has data."""
        backend = self._instrument.backend
        return not backend.computes and not backend.name.startswith("null")

    def argument(self, name: str) -> object:
        """Returns the test's own argument of that name."""
        arguments: Mapping[str, object] = getattr(self._item, "funcargs", {})
        return arguments.get(name)

    def at(
        self, sizes: Mapping[str, int], *, evidence: bool = False, trace: bool = False
    ) -> dict[str, Measurement]:
        """Returns the measurements of the test, as ``""``, and of its regions at *sizes*.

        With ``evidence``, measurements have a timeline of every tensor where the gauge tells of
        tensors; with ``trace``, a tracker takes the place of the gauge.

        Raises:
            AttnMemError: the test does not run with them.
        """
        try:
            return self._at(sizes, evidence, trace)
        except StartAgain:
            return self._at(sizes, evidence, trace)

    def _at(self, sizes: Mapping[str, int], evidence: bool, trace: bool) -> dict[str, Measurement]:
        opened = None
        with (
            suppress_reporting(self._item) as swallowed,
            self._memory.dry_run() as regions,
            given(self._item, sizes),
        ):
            try:
                reset_item(self._item)
                # Reserved bytes count from an emptied cache; the other metrics do not mind.
                with window(
                    self._instrument.backend,
                    "reserved",
                    trace=trace,
                    evidence=evidence,
                    most=sys.maxsize,
                ) as opened:
                    self._item.runtest()
                if swallowed:  # a subtest that ended early says nothing of this size
                    raise swallowed[0]
            except stops():
                raise
            except (AttnMemError, StartAgain):
                raise
            except BaseException as error:
                raise BudgetError(
                    f"the test raised {shown(error, 160)} at {listed(sizes)}, where its growth is"
                    " looked at; let it take other sizes"
                ) from error
        if opened.measurement is None:
            raise BudgetError(f"nothing was measured at {listed(sizes)}")
        return {**regions, "": opened.measurement}


def listed(sizes: Mapping[str, int]) -> str:
    """Returns sizes as messages show them: ``N=512 d=64``."""
    return " ".join(f"{ALIASES.get(name, name)}={size}" for name, size in sizes.items())
