"""A stand-in for the plugin's writer of rows."""

from __future__ import annotations

from pytest_attnmem.api.conclusion import Part
from pytest_attnmem.budgets.verdict import Verdict
from pytest_attnmem.measurement.measurement import Measurement


class NoBaseline:
    """The baseline of a test without one: no verdict changes, and nothing is a regression."""

    def judge(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict unchanged."""
        return verdict

    def with_terms(self, part: Part, verdict: Verdict) -> Verdict:
        """Returns the verdict unchanged."""
        return verdict


class KeptRows:
    """Keeps rows in a list; ``counts``, if given, takes the place of every verdict."""

    baseline = NoBaseline()

    def __init__(self, counts: Verdict | None = None) -> None:
        self.rows: list[tuple[Part, Verdict | None, Measurement | None]] = []
        self._counts = counts

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
