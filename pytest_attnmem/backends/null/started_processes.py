"""Has the processes that a program starts by ``multiprocessing`` compute values too.

They inherit the null device by their environment, but no operator would be noted in them, and each
read would get zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from multiprocessing.process import BaseProcess
from typing import Any


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The target of a process, which runs on a device with values; it can be pickled."""

    target: Callable[..., Any]
    values_limit: int
    must_know: bool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .program import prepare  # in the other process; it does nothing after a fork

        prepare(self.values_limit, must_know=self.must_know)
        return self.target(*args, **kwargs)


def follow_processes(values_limit: int, must_know: bool) -> None:
    """Prepares each process that is started from now on."""
    kind: Any = BaseProcess
    start = kind.start

    @wraps(start)
    def started(self: Any) -> None:
        if self._target is not None:
            self._target = _Prepared(self._target, values_limit, must_know)
        start(self)

    kind.start = started
