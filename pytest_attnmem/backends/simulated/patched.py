"""Attributes of PyTorch that have another value for a while.

A program may replace the same attributes, as ``monkeypatch`` does: before, inside or across the
time. What it puts there stays, and what it puts back later is not taken for its own.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

#: An attribute: the owner and the name.
Key = tuple[Any, str]
#: Attributes to replace, by owner and name.
Patches = Mapping[Key, Any]

#: The value of an attribute that the owner lacks, or inherits.
_MISSING: Final = object()
_OWN: Final = __name__.partition(".")[0]
_MOCKS: Final = "unittest.mock"
_INSTALLED: Final = ("site-packages", "dist-packages", sys.base_prefix)


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Sets the attributes for the body, and restores them."""
    set_here = _VALUES.enter(patches)
    try:
        yield
    finally:
        _VALUES.leave(set_here)


def are_set(patches: Patches) -> bool:
    """Returns True if no program has replaced one of the attributes since they were set."""
    for key, value in patches.items():
        present = _value(key)
        if present is not value and (_is_programs(present) or key in _VALUES.lost):
            return False
    return True


class _Values:
    """The values that this process has had in the place of PyTorch's."""

    def __init__(self) -> None:
        self._installed: dict[Key, Any] = {}
        """The value of each attribute before it was ever replaced."""
        self._put: dict[Key, Any] = {}
        """The value that was last put in each place here, which is no program's."""
        self.lost: defaultdict[Key, list[Any]] = defaultdict(list)
        """Values that a program replaced meanwhile: it may put them back."""

    def enter(self, patches: Patches) -> list[tuple[Key, Any, Any]]:
        """Sets the values, but where a program has its own; returns them, with those before."""
        set_here = []
        for key, value in patches.items():
            before = _value(key)
            installed = self._installed.setdefault(key, before)
            if before is not self._put.get(key, _MISSING) and _is_programs(before):
                continue
            if self.lost and _has(self.lost.get(key, ()), before):
                before = installed
            set_here.append((key, value, before))
            self._put_in(key, value)
        return set_here

    def leave(self, set_here: list[tuple[Key, Any, Any]]) -> None:
        """Restores the values, but where a program has its own."""
        for key, value, before in set_here:
            present = _value(key)
            if present is not value and _is_programs(present):
                self.lost[key].append(value)
            else:
                self._put_in(key, before)

    def _put_in(self, key: Key, value: Any) -> None:
        self._put[key] = value
        _set(key, value)


#: Of the process, as PyTorch's attributes are.
_VALUES: Final = _Values()


def _is_programs(value: Any) -> bool:
    """Returns True for a mock, and for a function of a file that is not installed."""
    name = getattr(value, "__module__", None)
    if not callable(value) or not isinstance(name, str) or name.startswith(_OWN):
        return False
    if name.startswith(_MOCKS):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not any(place in file for place in _INSTALLED)


def _has(values: Iterable[Any], value: Any) -> bool:
    return any(each is value for each in values)


def _value(key: Key) -> Any:
    owner, name = key
    return vars(owner).get(name, _MISSING)


def _set(key: Key, value: Any) -> None:
    owner, name = key
    if value is not _MISSING:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)
