"""Reads the dynamic symbols of a shared library for 64-bit Linux."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11
_IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian


class NotElf(ValueError):
    """A file that is not a 64-bit little-endian ELF file."""


def defined(path: str | os.PathLike[str]) -> frozenset[str]:
    """Returns the names that a library defines for others."""
    return frozenset(name for name, section in _symbols(path) if section)


def undefined(path: str | os.PathLike[str]) -> frozenset[str]:
    """Returns the names that a library imports from others."""
    return frozenset(name for name, section in _symbols(path) if not section)


def _symbols(path: str | os.PathLike[str]) -> Iterator[tuple[str, int]]:
    """Yields each dynamic symbol and its section; section 0 means another library defines it."""
    with open(path, "rb") as file:
        if file.read(len(_IDENT)) != _IDENT:
            raise NotElf(f"{os.fspath(path)} is not a 64-bit little-endian ELF file")
        # Mapped, not read: a library of torch has hundreds of megabytes, its symbols only a few.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            try:
                yield from _read(image)
            except (struct.error, ValueError) as error:
                raise NotElf(f"{os.fspath(path)} is cut short or damaged: {error}") from None


def _read(image: mmap.mmap) -> Iterator[tuple[str, int]]:
    header = _HEADER.unpack_from(image)
    at, size, count = header[6], header[11], header[12]
    sections = [_SECTION.unpack_from(image, at + i * size) for i in range(count)]
    for section in sections:
        if section[1] == _DYNSYM:
            _, _, _, _, start, length, link, _, _, _ = section
            names = sections[link][4]
            for symbol in _SYMBOL.iter_unpack(image[start : start + length]):
                if symbol[0]:
                    begin = names + symbol[0]
                    yield image[begin : image.find(b"\0", begin)].decode(), symbol[3]
