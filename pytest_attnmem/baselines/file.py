"""The baseline's file: one sorted line for each entry, so that diffs are small."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..contents import contents, replace
from ..errors import AttnMemError
from ..formulas.exact_arithmetic import MAX_BITS
from ..measurement.measurement import METRICS
from ..units import excerpt, shown
from .entries import Entries, Entry, Key

SCHEMA = 1.1
#: The versions of the file that this one reads and updates.
_READS = 1
#: The longest wait, in seconds, for another process that has locked the file to write it.
PATIENCE_S = 30.0


def load(path: Path) -> Entries:
    """Returns the entries of a file, also of a newer minor version.

    Raises:
        AttnMemError: the file cannot be read, or is not a baseline of a known version.
    """
    _, entries = _load(path)
    return entries


def update(
    path: Path, change: Callable[[Entries], Entries], *, create: bool = False
) -> tuple[Entries, Entries]:
    """Writes the file with its entries changed; returns the entries before and after.

    The file is written whole or not at all, and not if nothing changes, unless it is missing and
    ``create`` is set. No other process writes meanwhile, and entries that another process wrote
    since the session began are kept.

    Raises:
        AttnMemError: the file cannot be read or written; it is unchanged.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    try:
        with _locked(path):
            schema, before = _load(path) if path.exists() else (SCHEMA, {})
            if schema > SCHEMA:
                raise AttnMemError(
                    f"cannot update {path}: its schema is {shown(schema)}, and this version would"
                    f" lose the fields that it does not know; update with a newer pytest-attnmem"
                )
            after = change(before)
            if after != before or (create and not path.exists()):
                replace(path, render(after).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise AttnMemError(f"cannot write {path}: {error.strerror}") from error
    return before, after


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other processes from updating ``path`` meanwhile.

    The system releases the lock of a process that ends, so a lock file left behind locks nobody
    out.
    """
    try:
        from filelock import FileLock, Timeout  # torch requires it, so whoever measures has it
    except ImportError as error:
        raise AttnMemError(
            f"cannot write {path}: filelock is not installed; pip install filelock"
        ) from error
    path.parent.stat()  # filelock would make a folder that is missing
    file = path.with_name(f".{path.name}.lock")
    if file.is_symlink():  # filelock itself follows none from 3.20 on
        raise AttnMemError(f"{file} is a link, which a lock is not; delete it")
    lock = FileLock(file, PATIENCE_S)
    try:
        lock.acquire()
    except Timeout as error:
        raise AttnMemError(f"another process keeps {file} locked; try again") from error
    try:
        yield
    finally:
        # While it is held: filelock (3.21) does not take a lock on a file that is gone. Windows
        # removes no open file, and there filelock does so itself.
        with suppress(OSError):
            file.unlink()
        lock.release()


def render(entries: Entries) -> str:
    """Returns the file's text. A lone surrogate, which UTF-8 cannot encode, is not yet escaped."""
    lines = ",\n".join(
        json.dumps(_to_dict(key, entry), ensure_ascii=False)
        for key, entry in sorted(entries.items())
    )
    return f'{{"schema": {SCHEMA}, "entries": [\n{lines}\n]}}\n' if lines else _EMPTY


_EMPTY = f'{{"schema": {SCHEMA}, "entries": []}}\n'


def _to_dict(key: Key, entry: Entry) -> dict[str, Any]:
    data: dict[str, Any] = {"test": key.test}
    if key.region:
        data["region"] = key.region
    data |= {"metric": key.metric, "on": key.environment, "bytes": entry.nbytes}
    texts = {"formula": entry.formula, "held": [*entry.held], "parts": dict(entry.parts)}
    data |= {name: value for name, value in texts.items() if value}
    numbers = {"retained": entry.retained, "first": entry.first}
    return data | {name: value for name, value in numbers.items() if value is not None}


def _load(path: Path) -> tuple[int | float, dict[Key, Entry]]:
    def refused(why: str) -> AttnMemError:
        return AttnMemError(f"cannot read baseline {path}: {why}")

    try:
        text = contents(path)
    except FileNotFoundError as error:
        raise refused(f"{error.strerror}; --attnmem-update all writes one") from error
    except OSError as error:
        raise refused(str(error.strerror)) from error
    try:
        data = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise refused(_damage(text) or f"{excerpt(str(error), 120)}; {_RESTORE}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if (
        not isinstance(schema, (int, float))
        or isinstance(schema, bool)
        or not _READS <= schema < _READS + 1
    ):
        raise refused(f"its schema is {shown(schema)}, this version reads {_READS}")
    listed = data.get("entries")
    if not isinstance(listed, list):
        raise refused(f"it has no list of 'entries'; {_RESTORE}")
    entries: dict[Key, Entry] = {}
    for number, item in enumerate(listed, start=1):
        try:
            key, entry = _from_dict(item)
        except (KeyError, TypeError, ValueError) as error:
            raise refused(f"entry {number} is not valid: {shown(item, 120)}; {_RESTORE}") from error
        if key in entries:
            raise refused(
                f"two entries have the test {shown(key.name, 160)} on {key.environment}; delete one"
            )
        entries[key] = entry
    return schema, entries


_RESTORE = "restore the file, or delete it and run --attnmem-update all"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object; refuses a name that occurs twice, as after a merge."""
    made = dict(pairs)
    if len(made) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an object has {shown(name)} twice")
    return made


def _damage(text: bytes) -> str:
    """Returns the probable reason why a file is not JSON; empty if none is found."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>")):
            return (
                f"a merge left a conflict in line {number}; keep the entries of both sides, and run"
                " --attnmem-update all"
            )
    return ""


def _from_dict(item: Mapping[str, Any]) -> tuple[Key, Entry]:
    key = Key(item["test"], item.get("region", ""), item["metric"], item["on"])
    held, parts = item.get("held", []), item.get("parts", {})
    if not isinstance(held, list) or not isinstance(parts, dict):
        raise TypeError
    retained, first = item.get("retained"), item.get("first")
    entry = Entry(item["bytes"], item.get("formula", ""), tuple(held), parts, retained, first)
    texts = (*key, entry.formula, *entry.held)
    if not all(isinstance(text, str) for text in texts) or not key.test or not key.environment:
        raise TypeError
    known = (one for one in (retained, first) if one is not None)
    sizes = (entry.nbytes, *parts.values(), *known)
    if any(type(size) is not int or abs(size) >> MAX_BITS for size in sizes):
        raise ValueError
    if key.metric not in METRICS:
        raise ValueError
    return key, entry
