"""The updates of a baseline's entries, and the entries that an upgrade of torch moves."""

from __future__ import annotations

from collections.abc import Iterable

from .entries import Entries, Key, side_by_side
from .torch_version import nearest, split, with_one_thread


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
