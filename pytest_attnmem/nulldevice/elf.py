"""Reads the dynamic symbols of a shared library for 64-bit Linux."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC, _DYNSYM, _VERNEED, _VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
#: The kind of a symbol that is a variable.
OBJECT = 1


class NotElf(ValueError):
    """A file that is not a 64-bit little-endian ELF file."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A dynamic symbol."""

    name: str
    kind: int
    defined: bool
    """False if another library defines it."""
    library: str = ""
    """The library that an undefined symbol is to come from; empty if any will do."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Library:
    """The imports and exports of a library."""

    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    versions: Mapping[str, tuple[str, ...]]
    """Library → the versions that it must define."""


def defined(path: str | os.PathLike[str]) -> frozenset[str]:
    """Returns the names that a library defines for others."""
    return frozenset(symbol.name for symbol in read(path).symbols if symbol.defined)


def undefined(path: str | os.PathLike[str]) -> frozenset[str]:
    """Returns the names that a library imports from others."""
    return frozenset(symbol.name for symbol in read(path).symbols if not symbol.defined)


def read(path: str | os.PathLike[str]) -> Library:
    """Returns the imports and exports of a library; none if it has no table of sections.

    Raises:
        NotElf: the file is no such library, or is damaged.
    """
    with _mapped(path) as image:
        return _library(image)


def section(path: str | os.PathLike[str], name: str) -> tuple[int, int]:
    """Returns the offset and the size of a section in the file; zeros if it has none.

    Raises:
        NotElf: the file is no such library, or is damaged.
    """
    with _mapped(path) as image:
        every = _sections(image)
        names = every[_HEADER.unpack_from(image)[13]][4] if every else 0
        for entry in every:
            if _text(image, names + entry[0]) == name:
                return entry[4], entry[5]
    return 0, 0


class _mapped:
    """A library in memory; what is wrong with it becomes NotElf."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._name = os.fspath(path)

    def __enter__(self) -> mmap.mmap:
        with open(self._name, "rb") as file:
            if file.read(len(_IDENT)) != _IDENT:
                raise NotElf(f"{self._name} is not a 64-bit little-endian ELF file")
            # Mapped, not read: a library of torch has hundreds of megabytes, its symbols a few.
            self._image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._image

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._image.close()
        if isinstance(error, (struct.error, ValueError, IndexError)):
            raise NotElf(f"{self._name} is cut short or damaged: {error}") from None


def _sections(image: mmap.mmap) -> list[tuple[int, ...]]:
    header = _HEADER.unpack_from(image)
    return [_SECTION.unpack_from(image, header[6] + i * header[11]) for i in range(header[12])]


def _text(image: mmap.mmap, at: int) -> str:
    end = image.find(b"\0", at)
    if end < 0:
        raise ValueError(f"no text ends after {at}")
    return image[at:end].decode()


def _library(image: mmap.mmap) -> Library:
    every = _sections(image)
    by_kind = {entry[1]: entry for entry in every}
    if _DYNSYM not in by_kind:
        return Library((), (), (), {})
    names = every[by_kind[_DYNSYM][6]][4]

    def text(at: int) -> str:
        return _text(image, names + at)

    def body(kind: int, one: str) -> Iterator[tuple[int, ...]]:
        entry = by_kind.get(kind)
        return struct.iter_unpack(one, image[entry[4] : entry[4] + entry[5]]) if entry else iter(())

    dynamic = list(body(_DYNAMIC, "<qQ"))
    versions = dict(_versions(image, by_kind[_VERNEED][4], text)) if _VERNEED in by_kind else {}
    numbers = [number & 0x7FFF for (number,) in body(_VERSYM, "<H")]
    symbols = []
    for place, (name, info, _, where, _, _) in enumerate(body(_DYNSYM, _SYMBOL.format)):
        if name:
            number = numbers[place] if numbers and not where else 0
            symbols.append(Symbol(text(name), info & 15, where != 0, *versions.get(number, ())))
    wanted: dict[str, list[str]] = {}
    for library, version in versions.values():
        wanted.setdefault(library, []).append(version)
    paths = [text(value) for tag, value in dynamic if tag in (_RPATH, _RUNPATH)]
    return Library(
        tuple(text(value) for tag, value in dynamic if tag == _NEEDED),
        tuple(entry for path in paths for entry in path.split(":") if entry),
        tuple(symbols),
        {library: tuple(found) for library, found in wanted.items()},
    )


def _versions(
    image: mmap.mmap, at: int, text: Callable[[int], str]
) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yields the number of each version that is wanted, with its library and its name."""
    while True:
        _, count, library, first, following = struct.unpack_from("<HHIII", image, at)
        entry = at + first
        for _ in range(count):
            _, _, number, name, after = struct.unpack_from("<IHHII", image, entry)
            yield number & 0x7FFF, (text(library), text(name))
            entry += after
        if not following:
            return
        at += following
