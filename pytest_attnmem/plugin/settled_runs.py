"""Runs a test again until two runs need the same memory: caches are filled then."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import AttnMemError
from ..measurement.protocol import end_run
from ..measurement.random_states import OTHER_SEEDS
from .another_run import GENERATORS, begin_again, end_own_fixtures, kept_state
from .fresh_fixtures import NotMadeAnew, made_anew, own_fixtures
from .session import SESSION
from .size_sweep import SizedRun, SizeSweep

if TYPE_CHECKING:
    import pytest

    from ..backends.primed_backend import PrimedBackend
    from ..measurement.measurement import Measurement

#: The most runs before a number is recorded. Caches of caches need three; a cache of the last four
#: results is full after four, and until then each run leaves as much as the one before.
_MOST = 8
#: The most runs before it is compared: tests that ran before may have left results in the cache.
_MOST_COMPARED = 2 * _MOST


class Settled(NamedTuple):
    """A run that the next run repeats, and what each run leaves behind."""

    run: SizedRun | None
    """None if no two runs in a row need the same memory."""
    left: int
    """The bytes that each run leaves behind; they outlive the test."""
    by_chance: bool = False
    """True if a run with other random numbers needs other memory."""


class RepeatedRuns:
    """Runs a test once for all of its rows until a run repeats, then with other random numbers."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._found: dict[tuple[str, int], Settled] = {}

    def __call__(
        self, primed: PrimedBackend, first: Mapping[str, Measurement], threads: int
    ) -> Settled:
        """Returns what :func:`settle` does, with ``chance``."""
        which = primed.backend.name, threads
        if which not in self._found:
            self._found[which] = settle(self._item, primed, first, threads, chance=True)
        return self._found[which]


def settle(
    item: pytest.Item,
    primed: PrimedBackend,
    first: Mapping[str, Measurement],
    threads: int = 0,
    *,
    chance: bool = False,
) -> Settled:
    """Returns the run that repeats, if any of a few does.

    *first* is the test's first run, its body by "" and its regions by name. One more run is enough
    if it repeats the first and both left nothing behind. The runs have that many *threads* of the
    CPU; 0 leaves their number alone. With *chance*, further runs have other random numbers, if the
    first drew any.

    Raises:
        AttnMemError: the test does not run again.
    """
    sweep = SizeSweep(item, primed, {})
    chance = chance and item.stash[GENERATORS].have_moved
    alike = more = False
    with _threads(threads), sweep.at({}) as run:
        fresh = partial(_with_fixtures, item, own_fixtures(item), partial(run, False, False))
        try:
            before = fresh()
        except NotMadeAnew:
            fresh = partial(_with_fixtures, item, [], partial(run, False, False))
            before = fresh()
        if _alike(first, before.measurements) and not before.measurements[""].retained_bytes:
            return Settled(before, 0, chance and _by_chance(item, sweep, fresh, before))
        recorded = item.config.stash[SESSION].settings.update
        for _ in range((_MOST if recorded else _MOST_COMPARED) - 1):
            again = fresh()
            alike = _alike(before.measurements, again.measurements)
            more = bool(again.measurements[""].retained_bytes)
            before = again
            if alike and not more:
                break
        by_chance = alike and chance and _by_chance(item, sweep, fresh, before)
        left = _left(item, primed, before.measurements[""]) if more else 0
    return Settled(before if alike else None, left, by_chance)


def _with_fixtures(
    item: pytest.Item, names: Sequence[str], run: Callable[[], SizedRun]
) -> SizedRun:
    """Returns a run with fixtures made anew: in a session they fill the same each time."""
    end_own_fixtures(item)
    with made_anew(item, names):
        return run()


def _by_chance(
    item: pytest.Item, sweep: SizeSweep, run: Callable[[], SizedRun], before: SizedRun
) -> bool:
    """Returns True if runs with other random numbers need other memory than the run *before*.

    They do not if a fixture seeds the generators: each run makes it anew.
    """
    generators = item.stash[GENERATORS]
    sweep.begin = lambda _: None
    try:
        for seed in OTHER_SEEDS:
            generators.seed(seed)
            if not _alike(before.measurements, run().measurements):
                return True
    except AttnMemError:  # as where a check of values fails
        return False
    finally:
        sweep.begin = begin_again
    return False


@contextmanager
def _threads(number: int) -> Iterator[None]:
    torch: Any = sys.modules.get("torch")
    if not number or torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _alike(first: Mapping[str, Measurement], other: Mapping[str, Measurement]) -> bool:
    return first.keys() == other.keys() and all(
        (one.peak_bytes, one.retained_bytes) == (other[name].peak_bytes, other[name].retained_bytes)
        for name, one in first.items()
    )


def _left(item: pytest.Item, primed: PrimedBackend, last: Measurement) -> int:
    """Returns the bytes of the last run that the program's state keeps, beyond its own fixtures.

    Those of cycles through C++ code, which nothing frees, are not among them.
    """
    if not last.retained_bytes or last.retained_bytes < 0:
        return 0
    end_own_fixtures(item)
    end_run(primed.backend, settled=False)
    recorder = primed.backend.gauge()
    recorder.start()
    kept_state(item).put_back()
    gc.collect()
    freed = recorder.stop().requested
    return min(last.retained_bytes, -freed.final) if freed is not None and freed.final < 0 else 0
