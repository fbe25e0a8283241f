"""The facts of a test's backend that its fixtures and body may read."""

from __future__ import annotations

from collections.abc import Callable

from ..backends.primed_backend import PrimedBackend


class BackendFacts:
    """The facts of the backend that ``_primed`` opens."""

    _primed: Callable[[str | None], PrimedBackend]

    @property
    def device(self) -> str:
        """The device that the backend measures, as torch names it: ``"cuda:0"``, ``"cpu"``."""
        return str(self._primed(None).backend.device)  # without the marks of this package

    @property
    def computes(self) -> bool:
        """True if tensors have values: false on the null device and in a simulated run."""
        return self._primed(None).backend.computes
