"""The generators of random numbers of a process: their states are kept, and put back."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

#: Other seeds than a program has.
OTHER_SEEDS: Final = (74_205_661, 90_317_543)


class _Generator(NamedTuple):
    read: Callable[[], Any]
    write: Callable[[Any], object]
    seed: Callable[[int], object]


class Generators:
    """The generators of Python, Hypothesis, NumPy and torch, with their states.

    Those of a device are among them once the program has used it.
    """

    def __init__(self) -> None:
        self._kept = [(found, found.read()) for found in _generators()]

    def put_back(self) -> None:
        """Puts all generators back as they were."""
        for found, state in self._kept:
            found.write(state)

    @property
    def have_moved(self) -> bool:
        """Returns True if a number was drawn since."""
        return any(_plain(found.read()) != _plain(state) for found, state in self._kept)

    def seed(self, number: int) -> None:
        """Seeds all generators."""
        for found, _ in self._kept:
            found.seed(number)


def _generators() -> Iterator[_Generator]:
    yield _Generator(random.getstate, random.setstate, random.seed)
    yield from _of_hypothesis()
    if (numpy := sys.modules.get("numpy")) is not None:
        found: Any = numpy.random  # which NumPy imports on first use
        yield _Generator(found.get_state, found.set_state, found.seed)
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return
    devices = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    for one in (torch.default_generator, *devices):
        yield _Generator(one.get_state, one.set_state, one.manual_seed)


def _of_hypothesis() -> Iterator[_Generator]:
    """Yields the generator that seeds the examples of a test, which Hypothesis makes on first use.

    Tests with ``derandomize`` and ``--hypothesis-seed`` draw nothing from it.
    """
    core: Any = sys.modules.get("hypothesis.core")
    place, name = getattr(core, "threadlocal", core), "_hypothesis_global_random"
    if hasattr(place, name):
        if getattr(place, name) is None:
            setattr(place, name, random.Random())
        found: random.Random = getattr(place, name)
        yield _Generator(found.getstate, found.setstate, found.seed)


def _plain(state: Any) -> Any:
    """Returns a state as numbers that compare."""
    if isinstance(state, tuple):
        return tuple(map(_plain, state))
    return state.tolist() if hasattr(state, "tolist") else state
