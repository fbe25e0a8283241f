"""The numbers of a test that its baseline is compared with: of a run that the next run repeats.

A test that fills a cache needs more the first time, and which test fills it depends on the order of
the tests. So a number that differs from its entry is measured again until it repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pytest

from ..baselines.entries import Entry, Key, State, compare, tolerance_of
from ..baselines.environment_key import depends_on, threads_of
from ..budgets.tolerance import Tolerance
from ..budgets.verdict import Outcome, Verdict
from ..errors import AttnMemError, ProgramRefused, causes
from ..measurement.measurement import Measurement
from ..units import format_size
from .plan import own_nodeid
from .session import SESSION
from .traced_rerun import left_by

if TYPE_CHECKING:
    from ..api.conclusion import Part
    from ..backends.primed_backend import PrimedBackend
    from .fitted_forms import Row
    from .settled_runs import Settled

_BY_CHANCE: Final = "depends on random numbers; seed them in the test, or in a fixture of its scope"

#: Runs the test until a run repeats; takes the first run by region, and a number of CPU threads.
Repeat = Callable[["PrimedBackend", Mapping[str, Measurement], int], "Settled"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of a test, and its entry in the baseline."""

    key: Key
    made: Entry
    """The entry to write."""
    entry: Entry | None
    tolerance: Tolerance
    other: Key | None = None
    """The entry of another version of torch, if there is none of this version."""
    note: str = ""
    """How a run that the next one repeats differs from the first."""
    run: Measurement | None = None
    """That run; None if the first run is the one that is compared."""
    unsettled: str = ""
    """Why no run repeats another, so that the number is not compared; empty if one does."""

    @property
    def state(self) -> State:
        """The state of the number, and of the bytes that were left, against the entry."""
        state = compare(self.made.nbytes, self.entry, self.tolerance)
        left = self.left
        return left if state is State.SAME or left is State.REGRESSED else state

    @property
    def left(self) -> State:
        """The state of the bytes that were left; SAME if the entry does not have them."""
        if self.entry is None or self.entry.retained is None or self.made.retained is None:
            return State.SAME
        return compare(self.made.retained, Entry(self.entry.retained), self.tolerance)


@dataclass(slots=True)
class Attempt:
    """What one attempt at a test measured."""

    measured: dict[Row, Measured] = field(default_factory=dict)
    first: dict[str, Measurement] = field(default_factory=dict)
    """The first run: its body by "", and its regions by name."""
    waiting: dict[str, tuple[Part, Verdict | None, Measurement]] = field(default_factory=dict)
    """The regions to judge when the body has ended."""
    repeat: Repeat | None = None
    """Set once the body has ended."""


ATTEMPT = pytest.StashKey[Attempt]()


class BaselineNumbers:
    """The numbers of one test."""

    def __init__(self, item: pytest.Item) -> None:
        session = item.config.stash[SESSION]
        self._item = item
        self._name = own_nodeid(item)
        self._baseline = session.baseline
        self._tolerance = session.settings.tolerance
        self._updates = bool(session.settings.update)

    @property
    def attempt(self) -> Attempt:
        """The attempt at the test that is running."""
        return self._item.stash.setdefault(ATTEMPT, Attempt())

    @property
    def by_row(self) -> dict[Row, Measured]:
        """The numbers of the attempt, by region and metric."""
        return self.attempt.measured

    def measure(
        self, region: str, metric: str, verdict: Verdict | None, measurement: Measurement
    ) -> Measured | None:
        """Returns the number to compare; None if it is unknown or in doubt."""
        value = measurement.value(metric)
        if self._baseline is None or value is None or measurement.unmeasured is not None:
            return None
        # Without its result and its program, whose tensors would live as long as the test.
        self.attempt.first[region] = replace(measurement, result=None, trace=None, snapshots=())
        if measurement.doubt(metric):
            return None
        unproven = verdict is not None and verdict.outcome is Outcome.NOT_ENFORCED
        if measurement.out_of_memory is not None or (
            unproven and verdict is not None and not verdict.lacks_limit
        ):
            return None
        key = self.key_of(region, metric, measurement)
        tolerance = self._tolerance or tolerance_of(key.environment)
        entry = self.entry(key)
        other = self._baseline.of_other_torch(key) if entry is None else None
        measured = Measured(key, entry_of(measurement, metric), entry, tolerance, other)
        self.by_row[region, metric] = measured = _kept(measured)
        return measured

    def entry(self, key: Key) -> Entry | None:
        """Returns the entry for a key, or for another number of the CPU's threads."""
        if self._baseline is None:
            return None
        known = self._baseline.entries
        other = self._baseline.of_other_threads(key)
        return known.get(key if other is None else other)

    def key_of(self, region: str, metric: str, measurement: Measurement) -> Key:
        """Returns the key of a number's entry."""
        return self.key(region, metric, measurement.backend, measurement.device)

    def key(self, region: str, metric: str, backend: str, device: str) -> Key:
        """Returns the key of an entry on a device."""
        return Key(self._name, region, metric, depends_on(backend, device))

    def settled(self, region: str, metric: str, primed: PrimedBackend) -> Measured:
        """Returns the number of a run that the next one repeats."""
        measured, first = self.by_row[region, metric], self.attempt.first[region]
        key = measured.key
        if self._baseline is not None and key not in self._baseline.entries:
            key = self._baseline.of_other_threads(key) or key
        why, again = "", None
        try:
            found = self.attempt.repeat and self.attempt.repeat(
                primed, self.attempt.first, threads_of(key.environment)
            )
            again = found.run.measurements.get(region) if found and found.run else None
        except AttnMemError as error:
            refused = any(isinstance(cause, ProgramRefused) for cause in causes(error))
            if not first.retained_bytes and not refused:  # it left nothing that others find
                return measured
            why = f": {error}"
        value = None if again is None else again.value(metric)
        if again is None or value is None:
            left = left_by(self._item, primed, region)
            measured = replace(measured, unsettled=f"depends on what ran before{why}{left}")
        elif found and found.by_chance:
            measured = replace(measured, unsettled=_BY_CHANCE)
        else:
            more = (first.value(metric) or 0) - value
            note = _note(more, first) if more else ""
            made = entry_of(again, metric, measured.made.nbytes if more else None)
            if instead := self._kept_instead(region, measured, first, value, primed):
                measured = replace(measured, unsettled=instead)
            else:
                measured = _kept(replace(measured, made=made, note=note, run=again))
        self.by_row[region, metric] = measured
        return measured

    def _kept_instead(
        self, region: str, measured: Measured, first: Measurement, value: int, primed: PrimedBackend
    ) -> str:
        """Returns what each run keeps in the place of what the run before kept.

        The second run frees that, and so needs less above its start: that is no improvement on an
        entry whose first run kept nothing. Empty if there is no such entry, or nothing is kept.
        """
        entry = measured.entry
        if self._updates or entry is None or entry.first is not None or not first.retained_bytes:
            return ""
        if not value < entry.nbytes <= measured.made.nbytes:
            return ""
        left = left_by(self._item, primed, region, empty_caches=False)
        return left and f"each run keeps a tensor until the next{left}"


def entry_of(measurement: Measurement, metric: str, first: int | None = None) -> Entry:
    """Returns the entry of a number; ``first`` is that of the first run, if it was another one."""
    retained = None
    if metric == "peak" and not measurement.doubt("retained") and not measurement.parts:
        retained = measurement.retained_bytes
    value = measurement.value(metric) or 0
    return Entry(value, parts=measurement.parts, retained=retained, first=first)


def _kept(measured: Measured) -> Measured:
    """Returns the number with its entry as the one to write, where they are equal.

    An earlier version recorded no bytes that were left: they are added.
    """
    entry, made = measured.entry, measured.made
    if entry is None or (entry.nbytes, entry.parts) != (made.nbytes, made.parts):
        return measured
    if entry.retained == made.retained:
        return replace(measured, made=entry)
    return replace(measured, made=replace(entry, retained=made.retained))


def _note(more: int, first: Measurement) -> str:
    if more < 0:
        return f"{format_size(-more)} more in a second run"
    if first.retained_bytes:
        return f"+{format_size(more)} filled once"
    return f"+{format_size(more)} in the first run alone"
