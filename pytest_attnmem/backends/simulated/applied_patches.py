"""Patches that are applied now, and can be taken back for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

#: Attributes to replace, by owner and name.
Patches = Mapping[tuple[Any, str], Any]

_MISSING: Final = object()


class AppliedPatches:
    """Attributes that have replacements, and what they were before."""

    def __init__(self) -> None:
        self._replacements: dict[tuple[Any, str], Any] = {}
        self._originals: dict[tuple[Any, str], Any] = {}

    def apply(self, patches: Patches) -> None:
        """Applies patches; one of the same attribute replaces the earlier one."""
        for (owner, name), replacement in patches.items():
            if (owner, name) not in self._originals:
                self._originals[owner, name] = vars(owner).get(name, _MISSING)
            self._replacements[owner, name] = replacement
            setattr(owner, name, replacement)

    def undo(self) -> None:
        """Takes all patches back."""
        self._restore()
        self._replacements.clear()
        self._originals.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Takes all patches back for the body."""
        self._restore()
        try:
            yield
        finally:
            for (owner, name), replacement in self._replacements.items():
                setattr(owner, name, replacement)

    def _restore(self) -> None:
        for (owner, name), original in reversed(self._originals.items()):
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Applies patches for the body."""
    applied = AppliedPatches()
    applied.apply(patches)
    try:
        yield
    finally:
        applied.undo()
