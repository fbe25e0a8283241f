"""Stand-ins for the objects of a program that cannot be put back, while a test runs again.

Nobody can take a number back that an iterator gave, or an entry out of an ``lru_cache``. So another
run gets another object in its place, and the program's own is left alone.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from ..errors import ProgramRefused

_LRU_CACHE: Final = type(functools.lru_cache(lambda: None))
_METHODS: Final = (staticmethod, classmethod)
#: Iterators that a copy continues where they are.
_COPIED: Final[tuple[type, ...]] = (type(iter([])), type(iter(())), type(iter(range(0))))
#: Iterators that share what they go through with a copy.
_SHARED: Final[tuple[type, ...]] = (
    types.GeneratorType,
    *(map, zip, filter, enumerate, reversed),
    *(one for one in vars(itertools).values() if isinstance(one, type)),
)


def is_replaced(value: object) -> bool:
    """Returns True for what cannot be put back: a run gets a stand-in."""
    return is_cache(value) or type(value) in _COPIED or type(value) in _SHARED


def is_cache(value: Any) -> bool:
    """Returns True for an ``lru_cache``, also as a method of a class or of an instance."""
    return type(value.__func__ if type(value) in _METHODS else value) is _LRU_CACHE


def stand_in(name: str, value: Any) -> Callable[[], Any]:
    """Returns a function that makes a stand-in for a value as it is now.

    A cache is empty. An iterator is a copy; one that cannot be copied refuses to go on, by *name*.
    """
    if is_cache(value):
        return functools.partial(_emptied, value)
    if type(value) is itertools.count:
        begin = ast.literal_eval(f"[{repr(value).partition('(')[2][:-1]}]")
        return functools.partial(itertools.count, *begin)
    if type(value) in _COPIED:
        return functools.partial(copy.copy, copy.copy(value))
    return functools.partial(_Refusing, name, type(value).__name__)


def _emptied(cached: Any) -> Any:
    if type(cached) in _METHODS:
        return type(cached)(_emptied(cached.__func__))
    empty = functools.lru_cache(**cached.cache_parameters())(cached.__wrapped__)
    return functools.update_wrapper(empty, cached.__wrapped__)


class _Refusing(Iterator[Any]):
    """Stands in for an iterator that a run must not advance."""

    def __init__(self, name: str, kind: str) -> None:
        self._text = f"the test advances {name}, a {kind}, which nobody can put back; make it anew"

    def __next__(self) -> NoReturn:
        raise ProgramRefused(f"{self._text} in each test")

    def __getattr__(self, name: str) -> Any:
        if name in ("send", "throw", "close"):
            return lambda *_: next(self)
        raise AttributeError(name)
