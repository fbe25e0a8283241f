"""Notices calls of PyTorch's own functions, before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class CallWatch:
    """Calls a function before others, which are given by owner and name; a torch may lack some."""

    def __init__(self, places: Iterable[tuple[Any, str]]) -> None:
        self._places = [*places]

    def start(self, notice: Callable[[], None]) -> None:
        """Calls ``notice`` before each of them, in its thread, from now on."""

        def watched(function: Callable[..., Any]) -> Callable[..., Any]:
            def noticed(*args: Any, **kwargs: Any) -> Any:
                notice()
                return function(*args, **kwargs)

            return noticed

        there = [place for place in self._places if hasattr(*place)]
        self._kept = [(owner, name, getattr(owner, name)) for owner, name in there]
        for owner, name, function in self._kept:
            setattr(owner, name, watched(function))

    def stop(self) -> None:
        """Stops watching."""
        for owner, name, function in self._kept:
            setattr(owner, name, function)
