"""Runs a test's body in the windows of its budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..backends.registry import device_naming, lookahead, starts_again
from ..errors import AttnMemError, ProgramRefused, StartAgain
from ..measurement.protocol import BackendProtocol, simulation_context
from ..measurement.random_states import Generators
from ..measurement.window import Window
from ..measurement.window_stack import nothing_left_open, program_failed
from .another_run import (
    another_run,
    begin_again,
    begin_run,
    folder_aside,
    kept_state,
    other_values,
    reset_item,
)
from .fresh_fixtures import renew_fixtures
from .named_devices import names_cuda
from .row_writer import STOPS
from .session import SESSION
from .traced_rerun import kept_by_unittest

if TYPE_CHECKING:
    import pytest

    from .plan import Plan
    from .row_writer import RowWriter

_FORESEEN: Final = "the test names 'cuda', so its tensors without a device were on the CPU"


class MeasuredBody:
    """The body of one test. ``windows`` has the windows of the run that counts, by budget."""

    def __init__(self, item: pytest.Item, plan: Plan, rows: RowWriter) -> None:
        self.windows: list[Window] = []
        self._item = item
        self._plan = plan
        self._rows = rows
        self._looked_ahead = False
        self._foreseen = False
        session = item.config.stash[SESSION]
        self._programs = [primed.backend for _, primed in plan.budgets]
        """The backends in whose worlds the body runs."""
        if session.simulated is not None and not plan.budgets:
            self._programs = [session.primed(session.settings.backend).backend]

    @contextmanager
    def warmed_up(self) -> Iterator[None]:
        """Runs the body outside any window as often as ``warmup`` says, then the ``with``.

        In the end the process is as the first of these runs left it.
        """
        times = self._plan.warmup
        if not times:
            yield
            return
        self._warm_up()
        state, generators = kept_state(self._item), Generators()
        run = state.for_a_run(empty_caches=False)
        with folder_aside(self._item), run as others, other_values(self._item, others):
            for _ in range(times - 1):
                begin_again(self._item)
                self._warm_up()
            begin_again(self._item)
            try:
                yield
            finally:
                generators.put_back()

    def _warm_up(self) -> None:
        with self._plan.memory.dry_run() as regions, ExitStack() as worlds:
            for backend in self._programs:
                worlds.enter_context(simulation_context(backend))
            try:
                self._item.runtest()
            except (StartAgain, ProgramRefused, Exception) as error:
                if not regions:  # the program may know their numbers
                    self._tell(error)
                if not _why_restart(error, self._backends()):
                    raise
                self._begin_again()
                self._item.runtest()
            reset_item(self._item)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Opens the windows; closes them, and every window that the body leaves open."""
        # Only the outermost window can separate bytes that an import pinned from retained bytes.
        outermost_first = sorted(self._plan.budgets, key=lambda one: one[0].metric != "retained")
        with nothing_left_open(), ExitStack() as stack:
            opened = {
                spec.metric: stack.enter_context(primed.window(spec.metric))
                for spec, primed in outermost_first
            }
            self.windows = [opened[spec.metric] for spec, _ in self._plan.budgets]
            for backend in self._programs:
                stack.enter_context(simulation_context(backend))
            yield
            self._tell(kept_by_unittest(self._item))
        if self._foreseen:
            self._explain_nothing(_FORESEEN)

    def foresee(self) -> None:
        """Tells the backends if the code of the test names the device: it need not run twice."""
        found = [device_naming(backend) for backend in self._programs]
        waiting = [name for name in found if name is not None]
        if waiting and names_cuda(self._item):
            self._foreseen = True
            for name in waiting:
                name()

    def _tell(self, error: BaseException | None) -> None:
        for backend in self._programs:
            program_failed(backend, error)

    def why_again(self, error: BaseException | None) -> str:
        """Returns why the body, which ended with ``error``, must run again; "" if it need not.

        A body that a limit ended is run to its end: it might name a device that its tensors are
        not on.
        """
        cause = error or kept_by_unittest(self._item)
        if isinstance(cause, STOPS):
            return ""
        backends = self._backends()
        why = _why_restart(cause, backends)
        worlds = [ahead for backend in backends if (ahead := lookahead(backend)) is not None]
        if why or cause is None or not worlds or not self._limited():
            return why
        return self._look_ahead(worlds, backends)

    def run_again(self, why: str) -> BaseException | None:
        """Runs the body as if for the first time; returns the error that ended it."""
        self.windows.clear()
        self._rows.take_back()
        self._plan.memory.begin_again()
        vars(self._item).pop("_excinfo", None)  # the error that a unittest keeps
        error = None
        try:
            self._begin_again()
            with self.measured():
                self._item.runtest()
        except BaseException as raised:
            error = raised
        self._explain_nothing(why)
        cause = error or kept_by_unittest(self._item)
        if cause is not None and not isinstance(
            cause, (AttnMemError, ProgramRefused)
        ):  # the first run may have caused it
            times = "three times" if self._looked_ahead else "twice"
            text = f"the body ran {times}: {why}; name the device of each tensor, and it runs once"
            self._item.add_report_section("call", "memory budget", text)
        return error

    def _begin_again(self) -> None:
        begin_again(self._item)
        renew_fixtures(self._item)
        reset_item(self._item)
        begin_run(self._item)

    def _explain_nothing(self, why: str) -> None:
        """Has windows in which nothing was allocated say why the first run does not count."""
        for opened in self.windows:
            found = opened.measurement
            if found is not None and not found.allocations and found.unmeasured is None:
                nothing = f"nothing was allocated: {why}"
                opened.measurement = replace(found, unmeasured=nothing)

    def _backends(self) -> list[BackendProtocol]:
        used = [*self._programs]
        used += [region.primed.backend for region in self._plan.memory.regions]
        return [*{id(backend): backend for backend in used}.values()]

    def _limited(self) -> bool:
        """Returns True if a limit was exceeded: of a region, a check, or the device."""
        measured = [opened.measurement for opened in self.windows]
        measured += [region.measurement for region in self._plan.memory.regions]
        ran_out = any(one is not None and one.out_of_memory is not None for one in measured)
        return ran_out or bool(self._plan.memory.conclusions.exceeded)

    def _look_ahead(
        self, worlds: list[AbstractContextManager[None]], backends: list[BackendProtocol]
    ) -> str:
        """Runs the body without limits; returns why its verdicts do not count, or ""."""
        self._looked_ahead = True
        error = None
        with (
            another_run(self._item),
            self._plan.memory.dry_run(),
            nothing_left_open(),
            ExitStack() as entered,
        ):
            for ahead in worlds:
                entered.enter_context(ahead)
            try:
                reset_item(self._item)
                self._item.runtest()
            except STOPS:
                raise
            except BaseException as raised:
                error = raised
            return _why_restart(error or kept_by_unittest(self._item), backends)


def _why_restart(cause: BaseException | None, backends: list[BackendProtocol]) -> str:
    """Returns why a run must start again; if the run caught the error, its backend knows."""
    if isinstance(cause, StartAgain):
        return str(cause)
    return next(filter(None, map(starts_again, backends)), "")
