"""Torch's version and the CPU's threads in an environment's text: ``cpu threads1 torch2.13``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(r" torch(\d\S*)")
_THREADS = re.compile(r"^cpu threads(\d+)\b")


def split(environment: str) -> tuple[str, str]:
    """Returns the environment without torch's version, and the version, ``2.13``.

    The version is empty if it is unknown: an earlier pytest-attnmem wrote none for ``cpu`` and
    ``simulated``.
    """
    found = _VERSION.search(environment)
    if found is None:
        return environment, ""
    return environment[: found.start()] + environment[found.end() :], found[1]


def threads_of(environment: str) -> int:
    """Returns the number of threads of the CPU; 0 where memory does not depend on it."""
    found = _THREADS.match(environment)
    return int(found[1]) if found else 0


def with_one_thread(environment: str) -> str:
    """Returns the environment with one thread of the CPU."""
    return _THREADS.sub("cpu threads1", environment)


def named(version: str) -> str:
    """Returns ``torch 2.13``; ``an unknown torch`` if the version is empty."""
    return f"torch {version}" if version else "an unknown torch"


def nearest(environment: str, others: Iterable[str]) -> str | None:
    """Returns which of *others* differs in torch's version alone; None if none does.

    The newest older version comes first, then the oldest newer version; an unknown version counts
    as the oldest.
    """
    place, version = split(with_one_thread(environment))
    if not version:
        return None
    alike = sorted(
        (_number(split(other)[1]), other)
        for other in others
        if other != environment and split(with_one_thread(other))[0] == place
    )
    older = [other for number, other in alike if number <= _number(version)]
    return older[-1] if older else alike[0][1] if alike else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
