"""Attributes of PyTorch that have another value for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

#: Attributes to replace, by owner and name.
Patches = Mapping[tuple[Any, str], Any]


@contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Sets the attributes for the body, and restores them."""
    missing = object()
    before = [(owner, name, vars(owner).get(name, missing)) for owner, name in patches]
    try:
        for (owner, name), replacement in patches.items():
            setattr(owner, name, replacement)
        yield
    finally:
        for owner, name, original in reversed(before):
            if original is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
