"""A test's body, run in the windows of its budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from .backends import world
from .errors import AttnMemError, StartAgain
from .measure import nothing_left_open
from .second_run import kept_by_unittest, rewind
from .window import Window

if TYPE_CHECKING:
    import pytest

    from .plan import Plan
    from .rows import Rows


class Body:
    """The body of one test; ``windows`` has a window for each budget, of the run that counts."""

    def __init__(self, item: pytest.Item, plan: Plan, rows: Rows) -> None:
        self.windows: list[Window] = []
        self._item = item
        self._plan = plan
        self._rows = rows

    def warm_up(self) -> None:
        """Run the body as often as its budgets ask for, outside any window."""
        for _ in range(max((spec.warmup for spec, _ in self._plan.budgets), default=0)):
            with self._plan.memory.rehearsal(), ExitStack() as worlds:
                for _, instrument in self._plan.budgets:
                    worlds.enter_context(world(instrument.backend))
                try:
                    self._item.runtest()
                except StartAgain:
                    rewind(self._item)
                    self._item.runtest()
                rewind(self._item)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Open the windows; close them, and every window that the body leaves open."""
        # The outermost window alone can tell what an import pinned from what the body retains.
        outermost_first = sorted(self._plan.budgets, key=lambda one: one[0].metric != "retained")
        with nothing_left_open(), ExitStack() as stack:
            opened = {
                spec.metric: stack.enter_context(instrument.window(spec.metric))
                for spec, instrument in outermost_first
            }
            self.windows = [opened[spec.metric] for spec, _ in self._plan.budgets]
            yield

    def run_again(self, why: StartAgain) -> BaseException | None:
        """Run the body as if for the first time; returns the error that ended it."""
        self.windows.clear()
        self._rows.take_back()
        self._plan.memory.begin_again()
        if hasattr(self._item, "_excinfo"):  # the error that a unittest keeps
            self._item._excinfo = None
        error = None
        try:
            rewind(self._item)
            with self.measured():
                self._item.runtest()
        except BaseException as raised:
            error = raised
        cause = error or kept_by_unittest(self._item)
        if cause is not None and not isinstance(cause, AttnMemError):  # the first run's, it may be
            twice = f"the body ran twice: {why}; name the device of each tensor, and it runs once"
            self._item.add_report_section("call", "memory budget", twice)
        return error
