"""The state of a pytest session: its settings, open backends and collected rows.

Every session imports this module, so heavy imports wait until a budget needs them.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import AttnMemError, BackendUnavailable
from .row_transport import RowTexts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ..backends.primed_backend import PrimedBackend
    from ..backends.registry import Opener
    from ..baselines.entries import Baseline
    from ..measurement.garbage import GarbageFreezer
    from ..report.record import Record
    from .markers import ParsedMarkers
    from .options import Settings
    from .simulated_session import SimulatedSession


class Session:
    """The state of one pytest session, in a worker or in the controller."""

    def __init__(self, settings: Settings, openers: Mapping[str, Opener]) -> None:
        self.settings = settings
        self.process = os.getpid()
        """The process of the session; a test may fork another that goes on to the end."""
        self.row_texts = RowTexts()
        self.rows: dict[tuple[str, str], list[Record]] = {}
        """The rows by process and test; another attempt replaces the rows of an earlier attempt."""
        self.failed: set[str] = set()
        """The tests that failed for any reason; strict does not fail them again."""
        self.environment: dict[str, Any] | None = None
        """The environment of the workers; None without workers."""
        self.problems: dict[str, None] = {}
        """Why the session fails though no test did, in order: files that were not written, …"""
        self.baseline: Baseline | None = None
        """The baseline, if the session has one."""
        self.openers = openers
        """The openers of backends that plugins add."""
        self.parsed: ParsedMarkers = {}
        """The budgets that markers describe."""
        self.simulated: SimulatedSession | None = None
        """The device that programs see outside windows too, if the session's is simulated."""
        self._collector: GarbageFreezer | None = None
        self._switches = ExitStack()
        self._backends: dict[str, PrimedBackend | BackendUnavailable] = {}

    def prepare(self) -> None:
        """Prepares the process for measured tests, before the first of them runs."""
        from ..measurement.environment import kept_workspaces

        if self.settings.workspaces == "out" and not self.settings.disable:
            self._switches.enter_context(kept_workspaces())
        if self.settings.backend in ("auto", "cpu"):
            from ..backends.import_watch import after_import

            self._switches.callback(after_import("torch", _note_blocks))

    def end(self) -> None:
        """Restores the environment and the garbage collector."""
        self._switches.close()
        self.unfreeze()

    def freeze(self, path: Path) -> None:
        """Collects and freezes garbage before a measured test in *path* makes its fixtures."""
        if self._collector is None:
            from ..measurement.garbage import GarbageFreezer

            self._collector = GarbageFreezer()
        self._collector.freeze(path)

    @property
    def has_frozen(self) -> bool:
        """Returns True if a measured test ran before, whose garbage is collected."""
        return self._collector is not None

    def unfreeze(self, unless: Path | None = None) -> None:
        """Unfreezes all objects, unless the next measured test is in the same file, *unless*."""
        if self._collector is not None:
            self._collector.unfreeze(unless)

    @property
    def records(self) -> list[Record]:
        """All rows."""
        return [row for rows in self.rows.values() for row in rows]

    @property
    def is_forked(self) -> bool:
        """Returns True in a child that a test forked; the files are the parent's to write."""
        return os.getpid() != self.process

    def write_snapshots(self, row: Record, snapshots: Sequence[Mapping[str, Any]]) -> None:
        """Writes the allocator snapshots of a failed test if ``--attnmem-artifacts`` is given."""
        if snapshots and self.settings.artifacts is not None:
            from ..report.artifacts import write_snapshot

            with self.collect_problem("the snapshot"):
                write_snapshot(self.settings.artifacts, row, snapshots)

    def write_traces(self) -> None:
        """Writes the timelines of failed tests if ``--attnmem-artifacts`` is given."""
        if self.settings.artifacts is not None and not self.is_forked:
            from ..report.artifacts import write_traces

            with self.collect_problem("the traces"):
                write_traces(self.settings.artifacts, self.records)

    def write_reports(self, root: Path) -> None:
        """Writes the requested report files; ``root`` is the root of the tests."""
        if self.is_forked or not (self.settings.files or self.settings.github):
            return
        from ..report import render, write
        from ..report.origin import origin
        from ..report.summary import summarise

        with self.collect_problem("the reports"):
            summary = summarise(self.records)
            environment = {**(self.environment or self.describe()), **origin(root)}
            for kind, path in self.settings.files.items():
                with self.collect_problem(f"the {kind} report"):
                    write(path, render(kind, summary, environment))
            if self.settings.github:
                from ..report.github import add_to_step_summary

                with self.collect_problem("the step summary"):
                    add_to_step_summary(summary, os.environ)

    def describe(self) -> dict[str, Any]:
        """Returns the facts of this process, also where its programs see a simulated device."""
        from ..measurement.environment import describe

        with nullcontext() if self.simulated is None else self.simulated.as_installed():
            return describe()

    @contextmanager
    def collect_problem(self, what: str) -> Iterator[None]:
        """Records why ``what`` was not written, which fails the session.

        Any other error would end pytest before it shows the errors of the tests.
        """
        try:
            yield
        except AttnMemError as error:
            self.problems[str(error)] = None
        except Exception as error:  # a fault of ours, or no memory
            from ..units import shown

            self.problems[f"{what} could not be written: {shown(error)}"] = None

    def begin_test(self) -> None:
        """Forgets the tensors and rows of earlier tests."""
        self.row_texts.forget()
        for primed in self._backends.values():
            if not isinstance(primed, BackendUnavailable):
                primed.backend.forget()

    def primed(self, name: str) -> PrimedBackend:
        """Returns the backend of that name, opened and primed on first use.

        Raises:
            BackendUnavailable: the backend cannot measure here.
        """
        from ..backends.primed_backend import open_primed
        from ..backends.registry import BACKENDS, with_profiles
        from ..measurement.values_limit import parse_values_limit

        if name not in self._backends:
            try:
                # A test runs on any torch; what cannot be measured there is not enforced.
                simulated = with_profiles(without_rules=True)
                openers: Mapping[str, Opener] = {**BACKENDS, **simulated, **self.openers}
                if self.simulated is not None:
                    openers = self.simulated.openers(openers)
                opened = open_primed(name, openers, evidence=self.settings.evidence)
                if limit := getattr(opened.backend, "limit_values", None):
                    limit(parse_values_limit(self.settings.values_limit))
                self._backends[name] = opened
            except BackendUnavailable as error:
                self._backends[name] = type(error)(str(error))  # without the frames
        primed = self._backends[name]
        if isinstance(primed, BackendUnavailable):
            raise type(primed)(str(primed))
        return primed


SESSION: pytest.StashKey[Session] = pytest.StashKey()


def _note_blocks(_: object) -> None:
    """Has the CPU's allocator note the tensors of fixtures too, which a test may free."""
    from ..backends.cpu_profilers import note_all_blocks

    with suppress(BackendUnavailable):  # the backend says so, where it is asked for
        note_all_blocks()


def can_measure() -> bool:
    """Returns True if something here can measure, or stand in for a device; else no error is ours.

    A test may import this package on its own, in a session without budgets.
    """
    return "pytest_attnmem.measurement" in sys.modules
