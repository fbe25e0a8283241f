"""Attributes of PyTorch that have another value for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

#: Attributes to replace, by owner and name.
Patches = Mapping[tuple[Any, str], Any]

#: The value of an attribute that the owner lacks, or inherits.
_MISSING: Final = object()


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Sets the attributes for the body, and restores them."""
    before = present(patches)
    try:
        _set(patches)
        yield
    finally:
        _set(before)


def present(patches: Patches) -> Patches:
    """Returns the values that the attributes of the patches have now, as patches."""
    return {(owner, name): vars(owner).get(name, _MISSING) for owner, name in patches}


def _set(patches: Patches) -> None:
    for (owner, name), value in patches.items():
        if value is not _MISSING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)
