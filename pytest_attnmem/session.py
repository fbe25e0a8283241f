"""What a pytest session knows: its settings, opened backends and collected rows.

Imported by the plugin in every session, so nothing heavy is imported before a budget needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .collector import Collector
from .errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .backends import Opener
    from .instrument import Instrument
    from .record import Record
    from .settings import Settings


class Session:
    """One pytest session, in the process that runs tests or in the one that reports."""

    def __init__(self, settings: Settings, openers: Mapping[str, Opener]) -> None:
        self.settings = settings
        self.collector = Collector()
        self.rows: dict[tuple[str, str], list[Record]] = {}
        """By process and test, so that another attempt's replace those of the one before."""
        self.failed: set[str] = set()
        """Tests that failed for whatever reason; strict need not fail them again."""
        self.environment: dict[str, Any] | None = None
        """The measuring process's, where that is another one."""
        self._openers = openers
        self._instruments: dict[str, Instrument | BackendUnavailable] = {}

    @property
    def records(self) -> list[Record]:
        """Every row there is."""
        return [row for rows in self.rows.values() for row in rows]

    def forget(self) -> None:
        """Another test begins."""
        for found in self._instruments.values():
            if not isinstance(found, BackendUnavailable):
                found.backend.forget()

    def instrument(self, name: str) -> Instrument:
        """The backend of that name, opened and primed on first use.

        Raises:
            BackendUnavailable: it cannot measure here.
        """
        __tracebackhide__ = True
        from .backends import BACKENDS
        from .instrument import ready

        if name not in self._instruments:
            try:
                self._instruments[name] = ready(name, {**BACKENDS, **self._openers})
            except BackendUnavailable as error:
                self._instruments[name] = BackendUnavailable(str(error))  # and no frames
        found = self._instruments[name]
        if isinstance(found, BackendUnavailable):
            raise BackendUnavailable(str(found))
        return found
