"""Gives another run of a test the temporary folder that its first run found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

#: The names in the test's ``tmp_path`` before its first run.
_FOUND = pytest.StashKey[frozenset[str]]()
#: The folder that has what the first run left, while another run goes on.
_ASIDE = pytest.StashKey[Path]()


def note_folder(item: pytest.Item) -> None:
    """Notes what is in the folder before the first run of the test."""
    with suppress(OSError):
        if (folder := _folder(item)) is not None:
            item.stash[_FOUND] = frozenset(os.listdir(folder))


@contextmanager
def folder_aside(item: pytest.Item) -> Iterator[None]:
    """Sets the folder of the first run aside for a while; puts it and the working directory back.

    A folder that cannot be renamed, as with open files on Windows, stays as it is.
    """
    folder, place, aside = _folder(item), _place(), None
    if folder is not None and _FOUND in item.stash and _ASIDE not in item.stash:
        with suppress(OSError):
            aside = folder.rename(folder.with_name(f"{folder.name}-aside"))
            item.stash[_ASIDE] = aside
            folder.mkdir()
    try:
        yield
    finally:
        if folder is not None and aside is not None:
            del item.stash[_ASIDE]
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        if place and place != _place():
            os.chdir(place)


def fill_folder(item: pytest.Item) -> None:
    """Gives a run the folder as the first run found it."""
    folder, aside = _folder(item), item.stash.get(_ASIDE, None)
    if folder is None or aside is None:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    for name in item.stash[_FOUND]:
        with suppress(OSError):  # the first run may have removed it
            if (aside / name).is_dir():
                shutil.copytree(aside / name, folder / name, symlinks=True)
            else:
                shutil.copy2(aside / name, folder / name, follow_symlinks=False)


def _folder(item: Any) -> Path | None:
    found = getattr(item, "funcargs", {}).get("tmp_path")
    if found is None:
        fixture = getattr(getattr(item, "_request", None), "_fixture_defs", {}).get("tmp_path")
        found = fixture.cached_result[0] if fixture and fixture.cached_result else None
    return found if isinstance(found, Path) else None


def _place() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""
