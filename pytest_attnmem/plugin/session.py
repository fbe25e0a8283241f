"""What a pytest session knows: its settings, opened backends and collected rows.

Imported by the plugin in every session, so nothing heavy is imported before a budget needs it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import AttnMemError, BackendUnavailable
from ..measurement.garbage import GarbageFreezer
from ..report import KINDS, render, write
from .row_transport import RowTexts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..backends.primed_backend import PrimedBackend
    from ..backends.registry import Opener
    from ..baselines.entries import Baseline
    from ..report.record import Record
    from .options import Settings


class Session:
    """One pytest session, in the process that runs tests or in the one that reports."""

    def __init__(self, settings: Settings, openers: Mapping[str, Opener]) -> None:
        self.settings = settings
        self.collector = GarbageFreezer()
        self.row_texts = RowTexts()
        self.rows: dict[tuple[str, str], list[Record]] = {}
        """By process and test, so that another attempt's replace those of the one before."""
        self.failed: set[str] = set()
        """Tests that failed for whatever reason; strict need not fail them again."""
        self.environment: dict[str, Any] | None = None
        """The measuring process's, where that is another one."""
        self.problems: dict[str, None] = {}
        """What could not be written, in its order; it fails the session."""
        self.baseline: Baseline | None = None
        """What is to be compared with, where there is something."""
        self.openers = openers
        """The openers of backends that plugins add."""
        self._instruments: dict[str, PrimedBackend | BackendUnavailable] = {}

    @property
    def records(self) -> list[Record]:
        """Every row there is."""
        return [row for rows in self.rows.values() for row in rows]

    def keep_snapshots(self, row: Record, snapshots: Sequence[Mapping[str, Any]]) -> None:
        """Write what the allocator told of a test that failed, where that is asked for."""
        if snapshots and self.settings.artifacts is not None:
            from ..report.artifacts import write_snapshot

            with self._told():
                write_snapshot(self.settings.artifacts, row, snapshots)

    def write_traces(self) -> None:
        """Write who was alive when in tests that failed, where that is asked for."""
        if self.settings.artifacts is not None:
            from ..report.artifacts import write_traces

            with self._told():
                write_traces(self.settings.artifacts, self.records)

    def write_reports(self) -> None:
        """Write the session as each kind of file that was asked for."""
        paths = {kind: path for kind in KINDS if (path := getattr(self.settings, kind)) is not None}
        if not paths and not self.settings.github:
            return
        from ..measurement.environment import describe
        from ..report.summary import summarise

        summary, environment = summarise(self.records), self.environment or describe()
        for kind, path in paths.items():
            with self._told():
                write(path, render(kind, summary, environment))
        if self.settings.github:
            from ..report.github import add_to_step_summary

            with self._told():
                add_to_step_summary(summary, os.environ)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except AttnMemError as error:
            self.problems[str(error)] = None

    def forget(self) -> None:
        """Begin another test: nothing of an earlier test is on a device or kept as text."""
        self.row_texts.forget()
        for found in self._instruments.values():
            if not isinstance(found, BackendUnavailable):
                found.backend.forget()

    def instrument(self, name: str) -> PrimedBackend:
        """The backend of that name, opened and primed on first use.

        Raises:
            BackendUnavailable: it cannot measure here.
        """
        __tracebackhide__ = True
        from ..backends.primed_backend import open_primed
        from ..backends.registry import BACKENDS

        if name not in self._instruments:
            try:
                openers = {**BACKENDS, **self.openers}
                self._instruments[name] = open_primed(
                    name, openers, evidence=self.settings.evidence
                )
            except BackendUnavailable as error:
                self._instruments[name] = BackendUnavailable(str(error))  # and no frames
        found = self._instruments[name]
        if isinstance(found, BackendUnavailable):
            raise BackendUnavailable(str(found))
        return found


SESSION: pytest.StashKey[Session] = pytest.StashKey()
