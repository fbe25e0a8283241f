"""The allocations that are alive at the peak of a snapshot's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .snapshot import RETURNS, TAKES, Allocated, DeviceHistory
from .source_lines import UNKNOWN, Line


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of the requested bytes, and of the segments' bytes."""

    nbytes: int
    alive: tuple[Allocated, ...] = field(repr=False)
    reserved_bytes: int


def before(history: DeviceHistory) -> list[Allocated]:
    """Returns the blocks that were allocated before the first event, by address.

    These are blocks that are freed in the events, or alive at their end, and never allocated.
    """
    found: dict[int, Allocated] = {}
    known: set[int] = set()
    for event in history.events:
        if event.action == "alloc":
            known.add(event.address)
        elif event.action == "free_requested" and event.address not in known:
            found[event.address] = Allocated(event.address, event.size, event.stream, UNKNOWN)
            known.add(event.address)
    for block in history.allocated:
        if block.address not in known:
            found[block.address] = block
    return [found[address] for address in sorted(found)]


def peak(history: DeviceHistory) -> Peak:
    """Returns the peak of a device."""
    alive = {block.address: block for block in before(history)}
    total = highest = sum(block.size for block in alive.values())
    at_peak = 0
    for number, event in enumerate(history.events, 1):
        if event.action not in ("alloc", "free_requested"):
            continue
        gone = alive.pop(event.address, None)  # of an alloc: its free is not in the events
        total -= gone.size if gone is not None else 0
        if event.action == "alloc":
            alive[event.address] = Allocated(event.address, event.size, event.stream, event.line)
            total += event.size
            if total > highest:
                highest, at_peak = total, number
    return Peak(highest, tuple(_alive_after(history, at_peak)), _reserved(history))


def _alive_after(history: DeviceHistory, count: int) -> Iterable[Allocated]:
    alive = {block.address: block for block in before(history)}
    for event in history.events[:count]:
        if event.action == "alloc":
            alive[event.address] = Allocated(event.address, event.size, event.stream, event.line)
        elif event.action == "free_requested":
            alive.pop(event.address, None)
    return alive.values()


def _reserved(history: DeviceHistory) -> int:
    """Returns the most bytes of segments; the state at the end tells those at the start."""
    changes = [*_changes(history)]
    level = highest = history.reserved_bytes - sum(changes)
    for change in changes:
        level += change
        highest = max(highest, level)
    return highest


def _changes(history: DeviceHistory) -> Iterator[int]:
    for event in history.events:
        if event.action in TAKES:
            yield event.size
        elif event.action in RETURNS:
            yield -event.size


@dataclass(frozen=True, slots=True)
class LineChange:
    """The allocations of one function of one file at two peaks."""

    line: Line
    """A line of the newer peak if it has one."""
    old_count: int
    new_count: int
    delta: int


def line_changes(old: Peak, new: Peak) -> list[LineChange]:
    """Returns what changed by source line: the largest growth first, the largest loss last.

    Allocations of one function are told apart by their line, unless the line moved: then equal
    sizes on both sides are the same allocation.
    """
    left = [*_unmatched(old, new)]
    groups: dict[tuple[object, ...], tuple[list[Allocated], list[Allocated]]] = {}
    for side, block in left:
        groups.setdefault((*block.line.place, block.line.line), ([], []))[side].append(block)
    changes = [
        LineChange(
            (after or gone)[0].line,
            len(gone),
            len(after),
            sum(block.size for block in after) - sum(block.size for block in gone),
        )
        for gone, after in groups.values()
    ]
    return sorted(changes, key=lambda change: -change.delta)


def _unmatched(old: Peak, new: Peak) -> Iterator[tuple[int, Allocated]]:
    """Yields side 0 or 1, and an allocation that the other side lacks."""
    waiting: dict[tuple[object, ...], list[Allocated]] = {}
    for block in old.alive:
        waiting.setdefault((*block.line.place, block.size), []).append(block)
    for block in new.alive:
        if same := waiting.get((*block.line.place, block.size)):
            same.pop()
        else:
            yield 1, block
    for blocks in waiting.values():
        for block in blocks:
            yield 0, block
