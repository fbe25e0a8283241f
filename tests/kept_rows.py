"""A stand-in for the plugin's writer of rows."""

from __future__ import annotations

from pytest_attnmem.api.conclusion import Part
from pytest_attnmem.budgets.verdict import Verdict
from pytest_attnmem.measurement.measurement import Measurement


class KeptRows:
    """Keeps rows in a list; ``counts``, if given, takes the place of every verdict."""

    def __init__(self, counts: Verdict | None = None) -> None:
        self.rows: list[tuple[Part, Verdict | None, Measurement | None]] = []
        self._counts = counts

    def against_baseline(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict unchanged, as without a baseline."""
        return verdict

    def difference(self, part: Part, verdict: Verdict) -> Verdict | None:
        """Returns None: without a baseline, nothing is a regression."""
        return None

    def write(
        self,
        part: Part,
        verdict: Verdict | None,
        measurement: Measurement | None,
        *,
        again: bool = False,
    ) -> Verdict | None:
        """Keeps the row; returns the verdict that counts."""
        self.rows.append((part, verdict, measurement))
        return self._counts or verdict
