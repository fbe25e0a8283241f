"""A region of a test that is measured by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from ..backends.primed_backend import PrimedBackend
from ..budgets.verdict import Verdict
from ..errors import BudgetError
from ..measurement.measurement import Measurement
from ..measurement.window import Window


class Region:
    """The context manager of :meth:`AttnMem.region`; sets ``measurement`` at its end."""

    def __init__(
        self,
        name: str,
        primed: PrimedBackend,
        window: AbstractContextManager[Window],
        judge: Callable[[str, Measurement, BaseException | None], Verdict | None],
        limited: bool = False,
    ) -> None:
        self.name = name
        self.primed = primed
        self.limited = limited
        """True if the region has a limit of its own."""
        self.measurement: Measurement | None = None
        self.verdict: Verdict | None = None
        self.entered = False
        self.ended = False
        self._window = window
        self._judge = judge

    def __repr__(self) -> str:
        return f"<region {self.name!r}>"

    def __enter__(self) -> Region:
        if self.entered:
            raise BudgetError(
                f"region {self.name!r} was entered before; make a region for each 'with'"
            )
        self.entered = True
        self._opened = self._window.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.ended:  # abandoned when its test ended
            return
        self.ended = True
        try:
            self._window.__exit__(kind, error, traceback)
        finally:
            self.measurement = self._opened.measurement
            if self.measurement is not None:
                self.verdict = self._judge(self.name, self.measurement, error)

    def abandon(self) -> bool:
        """Ends the region without a verdict; returns True if it was open, as in a generator."""
        if self.ended or not self.entered:
            return False
        self.ended = True
        self._window.__exit__(None, None, None)
        return True
