"""The generators of random numbers of a process: their states are kept, and put back."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any


def kept_generators() -> Callable[[], None]:
    """Returns a function that puts the generators of Python, NumPy and torch back.

    Generators of a device are among them once the program has used it.
    """
    kept = [*_states()]

    def put_back() -> None:
        for restore in kept:
            restore()

    return put_back


def _states() -> Iterator[Callable[[], object]]:
    yield partial(random.setstate, random.getstate())
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        yield partial(numpy.set_state, numpy.get_state())
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return
    yield partial(torch.set_rng_state, torch.get_rng_state())
    if torch.cuda.is_initialized():
        for generator in torch.cuda.default_generators:
            yield partial(generator.set_state, generator.get_state())
