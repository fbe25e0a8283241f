"""What was measured before, and how a measurement compares with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from ..budgets.tolerance import NONE, Tolerance
from ..units import format_distinct, format_size

#: What a device of its own measures varies a little: the first number is of it, the second of the
#: smallest that is worth a look.
_NOISE = Tolerance(Fraction(1, 100), 1 << 20)


class State(Enum):
    """How a measurement compares with its entry."""

    NEW = "new"
    SAME = "same"
    REGRESSED = "regressed"
    IMPROVED = "improved"
    STALE = "stale"
    """An entry of what is measured no more."""


class Key(NamedTuple):
    """What an entry is of; sorted by test, so that one test's entries are next to each other."""

    test: str
    region: str
    metric: str
    environment: str
    """As :func:`pytest_attnmem.baselines.environment_key.depends_on` has it."""

    @property
    def name(self) -> str:
        """The test, the region in it, and the metric unless that is the usual one."""
        metric = "" if self.metric == "peak" else f" ({self.metric})"
        return f"{self.test} [{self.region}]{metric}" if self.region else f"{self.test}{metric}"


@dataclass(frozen=True, slots=True)
class Entry:
    """What was measured."""

    nbytes: int
    formula: str = ""
    """The same in the symbols that are the test's arguments, where they could be varied."""
    held: tuple[str, ...] = ()
    """The tensors that were alive, by kind: ``2 × float32 [B, H, N, N] softmax, attn.py in f``."""


Entries = Mapping[Key, Entry]

_NOTHING: Entries = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Baseline:
    """A file of entries, as it was when the session began."""

    name: str
    """As messages call the file."""
    entries: Entries = field(default_factory=lambda: _NOTHING)
    _environments: Mapping[tuple[str, ...], list[str]] = field(init=False, repr=False)
    """By test, region and metric: every test of a session may ask."""

    def __post_init__(self) -> None:
        known: dict[tuple[str, ...], list[str]] = {}
        for key in sorted(self.entries):
            known.setdefault(key[:3], []).append(key.environment)
        object.__setattr__(self, "_environments", known)

    def elsewhere(self, key: Key) -> tuple[str, ...]:
        """The environments that have an entry for the same, where this one has none."""
        known = self._environments.get(key[:3], ())
        return tuple(other for other in known if other != key.environment)


def tolerance_of(environment: str) -> Tolerance:
    """How far over its baseline is still the same, unless the user says: on a real device a bit."""
    return _NOISE if environment.partition(" ")[0] in ("cuda", "accelerator") else NONE


def compare(nbytes: int, entry: Entry | None, tolerance: Tolerance) -> State:
    """How *nbytes* compare with the entry for them; equality within *tolerance* is the same."""
    if entry is None:
        return State.NEW
    allowance = tolerance.allowance(entry.nbytes)
    if nbytes > entry.nbytes + allowance:
        return State.REGRESSED
    return State.IMPROVED if nbytes < entry.nbytes - allowance else State.SAME


def regression(metric: str, nbytes: int, entry: Entry, place: str, tolerance: Tolerance) -> str:
    """A regression in words: ``peak 76.5 MiB is 12.0 MiB over its baseline 64.5 MiB (+18.6%)``."""
    value, before = format_distinct(nbytes, entry.nbytes)
    excess = format_size(nbytes - entry.nbytes)
    allowed = f" with tolerance {tolerance}" if tolerance != NONE else ""
    return (
        f"{metric} {value} is {excess} over its baseline {before}"
        f"{percentage(nbytes, entry.nbytes)}{allowed} on {place}"
    )


def percentage(nbytes: int, before: int) -> str:
    """By how much it changed, in parentheses: `` (+18.6%)``; empty of nothing, or of no change."""
    if before <= 0 or nbytes == before:
        return ""
    tenths = (abs(nbytes - before) * 2000 // before + 1) // 2
    if not tenths:
        return ""
    sign = "+" if nbytes > before else "-"
    return f" ({sign}{tenths // 10:,}.{tenths % 10}%)"


def with_all(entries: Entries, measured: Entries) -> Entries:
    """Every measurement written; what was not measured is kept."""
    return {**entries, **measured}


def with_new(entries: Entries, measured: Entries) -> Entries:
    """Those measurements written that had no entry."""
    return {**measured, **entries}


def without(entries: Entries, stale: Iterable[Key]) -> Entries:
    """Those entries gone."""
    gone = {*stale}
    return {key: entry for key, entry in entries.items() if key not in gone}
