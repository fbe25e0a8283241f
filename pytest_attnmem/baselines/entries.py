"""The entries of a baseline: their comparison with new measurements, and their updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Final, NamedTuple

from ..budgets.tolerance import NONE, Tolerance
from ..units import format_change, format_distinct, format_size
from .environment_key import nearest, split, threads_of, with_one_thread

#: The start of the reason of a budget that lacks only an entry: the number itself was measured.
NO_ENTRY: Final = "no baseline entry"
OTHER_ENTRY: Final = "baseline entry of"

#: Real devices repeat a measurement only to about 1 %, and less than 1 MiB is not worth a report.
_NOISE = Tolerance(Fraction(1, 100), 1 << 20)


class State(Enum):
    """The result of comparing a measurement with its entry."""

    NEW = "new"
    OTHER_TORCH = "other torch"
    """The entry is of another version of torch; it is compared for information only."""
    SAME = "same"
    REGRESSED = "regressed"
    IMPROVED = "improved"
    UPDATED = "updated"
    """The entry differed, and ``--attnmem-update all`` replaces it."""
    STALE = "stale"
    """The entry is of a test that is not measured any more."""


def row_name(row: tuple[str, str, str]) -> str:
    """Returns the name of a result: the test, the region in it, and the metric if not the peak."""
    test, region, metric = row
    inner = f" [{region}]" if region else ""
    return f"{test}{inner}" + (f" ({metric})" if metric != "peak" else "")


class Key(NamedTuple):
    """The measurement that an entry is for; keys sort by test, so its entries stay together."""

    test: str
    region: str
    metric: str
    environment: str
    """The text of :func:`pytest_attnmem.baselines.environment_key.depends_on`."""

    @property
    def name(self) -> str:
        """Returns the test, the region in it, and the metric unless it is the peak."""
        return row_name(self[:3])


@dataclass(frozen=True, slots=True)
class Entry:
    """The bytes of an earlier measurement."""

    nbytes: int
    formula: str = ""
    """The bytes in symbols that are arguments of the test, where these could be varied."""
    held: tuple[str, ...] = ()
    """The live tensors by kind: ``2 × float32 [B, H, N, N] softmax, attn.py in f``."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The bytes of a model by term and module: ``saved for backward of blocks.*.mlp``."""
    retained: int | None = None
    """The bytes alive at the end of the window; None if they were not recorded."""
    first: int | None = None
    """The bytes of a first run that needed others, such as one that filled a cache."""


Entries = Mapping[Key, Entry]

_NOTHING: Entries = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Baseline:
    """The entries of a baseline's file when the session began."""

    name: str
    """The name of the file in messages."""
    entries: Entries = field(default_factory=lambda: _NOTHING)
    _environments: Mapping[tuple[str, ...], list[str]] = field(init=False, repr=False)
    """The environments by test, region and metric: each test of a session may look them up."""
    _side_by_side: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known: dict[tuple[str, ...], list[str]] = {}
        for key in sorted(self.entries):
            known.setdefault(key[:3], []).append(key.environment)
        object.__setattr__(self, "_environments", known)
        object.__setattr__(self, "_side_by_side", side_by_side(self.entries))

    def has(self, test: str) -> bool:
        """Returns True if there is an entry for the peak of this test, in any environment."""
        return (test, "", "peak") in self._environments

    def elsewhere(self, key: Key) -> tuple[str, ...]:
        """Returns the other environments that have an entry for this test, region and metric."""
        known = self._environments.get(key[:3], ())
        return tuple(other for other in known if other != key.environment)

    def of_other_torch(self, key: Key) -> Key | None:
        """Returns the key of the entry that the nearest other version of torch recorded.

        None if there is an entry for *key* itself, or for no other version in the same place.
        """
        if key in self.entries:
            return None
        other = nearest(key.environment, self.elsewhere(key))
        return None if other is None else key._replace(environment=other)

    def of_other_threads(self, key: Key) -> Key | None:
        """Returns the key of the entry that was made with another number of CPU threads.

        None if there is an entry for *key* itself, or for no other number.
        """
        if key in self.entries or threads_of(key.environment) == 0:
            return None
        place = with_one_thread(key.environment)
        alike = [one for one in self.elsewhere(key) if with_one_thread(one) == place]
        return min((key._replace(environment=one) for one in alike), default=None)

    def keeps_versions(self, environment: str) -> bool:
        """Returns True if the file keeps several versions of torch side by side in this place."""
        return split(environment)[0] in self._side_by_side


def tolerance_of(environment: str) -> Tolerance:
    """Returns the default tolerance of an environment: none, except on a real device."""
    return _NOISE if environment.partition(" ")[0] in ("cuda", "accelerator") else NONE


def compare(nbytes: int, entry: Entry | None, tolerance: Tolerance) -> State:
    """Returns the state of *nbytes* against its entry; SAME if it is within *tolerance*."""
    if entry is None:
        return State.NEW
    allowance = tolerance.allowance(entry.nbytes)
    if nbytes > entry.nbytes + allowance:
        return State.REGRESSED
    return State.IMPROVED if nbytes < entry.nbytes - allowance else State.SAME


def regression(metric: str, nbytes: int, entry: Entry, place: str, tolerance: Tolerance) -> str:
    """Returns ``peak 76.5 MiB is 12.0 MiB over its baseline 64.5 MiB (+18.6%) on …``."""
    value, before = format_distinct(nbytes, entry.nbytes)
    excess = format_size(nbytes - entry.nbytes)
    allowed = f" with tolerance {tolerance}" if tolerance != NONE else ""
    return (
        f"{metric} {value} is {excess} over its baseline {before}"
        f"{percentage(nbytes, entry.nbytes)}{allowed} on {place}"
    )


def percentage(nbytes: int, before: int) -> str:
    """Returns the change as `` (+18.6%)``; empty if it is 0.0 % or there were no bytes before."""
    if before <= 0 or nbytes == before:
        return ""
    tenths = (abs(nbytes - before) * 2000 // before + 1) // 2
    if not tenths:
        return ""
    sign = "+" if nbytes > before else "-"
    return f" ({sign}{tenths // 10:,}.{tenths % 10}%)"


def side_by_side(keys: Iterable[Key]) -> frozenset[str]:
    """Returns the places that keep a measurement for several known versions of torch."""
    known: dict[tuple[str, ...], set[str]] = {}
    for key in keys:
        place, version = split(key.environment)
        if version:
            known.setdefault((*key[:3], place), set()).add(version)
    return frozenset(place for (*_, place), versions in known.items() if len(versions) > 1)


#: The most parts that are listed.
_LISTED = 4


def part_changes(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Returns the parts that changed, those that grew first; empty if one side has no parts.

    ``+4.0 MiB saved for backward of blocks.*.mlp; -64.0 KiB temporary of head``. The listed changes
    and their rest sum to the change of the whole.
    """
    if not before or not now:
        return ""
    changes = {name: now.get(name, 0) - before.get(name, 0) for name in {**before, **now}}
    ordered = sorted(
        ((name, change) for name, change in changes.items() if change),
        key=lambda one: (one[1] < 0, -abs(one[1])),
    )
    texts = [f"{format_change(change)} {name}" for name, change in ordered[:_LISTED]]
    if rest := ordered[_LISTED:]:
        together = format_change(sum(change for _, change in rest))
        texts.append(f"and {together} in {len(rest)} other part{'' if len(rest) == 1 else 's'}")
    return "; ".join(texts)


def with_all(entries: Entries, measured: Entries) -> Entries:
    """Returns the entries with every measurement; entries without a measurement are kept.

    A measurement replaces the entry of another version of torch. In a place that keeps several
    versions side by side, it replaces only an entry of an unknown version.
    """
    return {**without(entries, _replaced(entries, measured)), **measured}


def with_new(entries: Entries, measured: Entries) -> Entries:
    """Returns the entries with those measurements that had no entry."""
    return {**measured, **entries}


def without(entries: Entries, stale: Iterable[Key]) -> Entries:
    """Returns the entries without the stale ones."""
    removed = {*stale}
    return {key: entry for key, entry in entries.items() if key not in removed}


def moved(before: Entries, after: Entries) -> dict[Key, Key]:
    """Returns new key → old key of the entries that an update moved from one torch to another."""
    gone: dict[tuple[str, ...], list[str]] = {}
    for key in before.keys() - after.keys():
        gone.setdefault(key[:3], []).append(key.environment)
    pairs: dict[Key, Key] = {}
    for key in after.keys() - before.keys():
        old = nearest(key.environment, gone.get(key[:3], ()))
        if old is not None:
            pairs[key] = key._replace(environment=old)
    return pairs


def _replaced(entries: Entries, measured: Entries) -> list[Key]:
    kept = side_by_side(entries)
    versions = {
        (*key[:3], place): version
        for key in measured
        for place, version in [split(key.environment)]
        if version
    }
    replaced = []
    for key in entries:
        environment = with_one_thread(key.environment)  # measured with one thread from now on
        if environment != key.environment and key._replace(environment=environment) in measured:
            replaced.append(key)
            continue
        place, version = split(environment)
        now = versions.get((*key[:3], place))
        if now is not None and version != now and not (version and place in kept):
            replaced.append(key)
    return replaced
