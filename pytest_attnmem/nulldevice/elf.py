"""Reads the dynamic symbols of a shared library for 64-bit Linux, and writes a library of stubs.

A stub returns a number or a text. One that is counted jumps to ``attnmem_null_stub`` of the runtime
with its name and its number, so that a call can be reported by name. The format is that of the
System V ABI (AMD64 supplement), without a compiler; symbol versions are GNU's.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ..errors import BackendUnavailable

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC, _DYNSYM, _VERNEED, _VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
_IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
#: The kind of a symbol that is a variable.
OBJECT = 1


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
        BackendUnavailable: the file is no such library, or is damaged.
    """
    with _mapped(path) as image:
        return _library(image)


def section(path: str | os.PathLike[str], name: str) -> tuple[int, int]:
    """Returns the offset and the size of a section in the file; zeros if it has none.

    Raises:
        BackendUnavailable: the file is no such library, or is damaged.
    """
    with _mapped(path) as image:
        every = _sections(image)
        names = every[_HEADER.unpack_from(image)[13]][4] if every else 0
        for entry in every:
            if _text(image, names + entry[0]) == name:
                return entry[4], entry[5]
    return 0, 0


@contextmanager
def _mapped(path: str | os.PathLike[str]) -> Iterator[mmap.mmap]:
    """Gives a library in memory; what is wrong with it becomes BackendUnavailable."""
    with open(path, "rb") as file:
        if file.read(len(_IDENT)) != _IDENT:
            raise _refused(path, "no 64-bit little-endian ELF file")
        # Mapped, not read: a library of torch has hundreds of megabytes, its symbols a few.
        image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        with image:
            yield image
    except (struct.error, ValueError, IndexError) as error:
        raise _refused(path, f"cut short or damaged ({error})") from None


def _refused(path: str | os.PathLike[str], what: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"the null device cannot use {os.fspath(path)}, which is {what}: remove it, or install its"
        " package anew"
    )


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


_PAGE: Final = 0x1000
_X86_64: Final = 62
_FUNCTION, _VARIABLE = 0x12, 0x11  # global
_WEAK = 0x20
_GLOB_DAT: Final = 6
_COUNTER: Final = "attnmem_null_stub"
_HEADERS: Final = 64 + 4 * 56


@dataclass(frozen=True, slots=True, order=True)
class Function:
    """A function that returns ``number``, or a pointer to ``text`` if that is not empty."""

    name: str
    number: int = 0
    text: str = ""
    counted: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """A variable of 4 KiB of zeros, which is more than any of CUDA's has."""

    name: str
    version: str = ""

    SIZE = 4096


def is_written(path: str) -> bool:
    """Returns True for a library that :func:`write` wrote: it has no table of sections."""
    with open(path, "rb") as file:
        head = file.read(64)
    return len(head) == 64 and struct.unpack_from("<H", head, 60)[0] == 0


def write(
    soname: str,
    functions: Iterable[Function],
    variables: Iterable[Variable] = (),
    versions: Iterable[str] = (),
    needed: str = "",
) -> bytes:
    """Returns a library that defines functions and variables, and *versions* beside theirs.

    Whoever asks it for a name finds those of the library *needed* too.

    Two segments: headers, symbols, names and code; and the dynamic table, the address of the
    counter and the variables, which take no room in the file.
    """
    functions, variables = sorted(set(functions)), sorted(set(variables))
    defined: list[Function | Variable] = [*functions, *variables]
    named = sorted({*versions, *(one.version for one in defined if one.version)})
    names, texts = _Strings(), _Strings()
    symbols = [_COUNTER, *(one.name for one in defined)]
    for name in (soname, *symbols, *named, *((needed,) if needed else ())):
        names.offset_of(name)
    for function in functions:
        texts.offset_of(function.name if function.counted else function.text)

    # Sizes are known before addresses, so one pass lays everything out.
    count = 1 + len(symbols)
    symbols_at = _HEADERS
    hash_at = symbols_at + 24 * count
    hashes = _hash_table(["", *symbols])
    numbers_at = hash_at + len(hashes)
    versions_at = _up(numbers_at + 2 * count, 8)
    definitions = _definitions(soname, named, names)
    relocation_at = _up(versions_at + len(definitions), 8)
    names_at = relocation_at + 24
    code_at = _up(names_at + len(names.bytes), 16)
    texts_at = code_at + 32 * len(functions)
    dynamic_at = _up(texts_at + len(texts.bytes), _PAGE)
    dynamic = [
        (14, names.offset_of(soname)), (4, hash_at), (5, names_at), (6, symbols_at),
        (10, len(names.bytes)), (11, 24), (7, relocation_at), (8, 24), (9, 24),
        (0x6FFFFFF0, numbers_at), (0x6FFFFFFC, versions_at), (0x6FFFFFFD, 1 + len(named)),
        *([(1, names.offset_of(needed))] if needed else []), (0, 0),
    ]  # fmt: skip
    counter_at = dynamic_at + 16 * len(dynamic)
    file_end = counter_at + 8
    variables_at = _up(file_end, 64)

    code = b"".join(
        _code(function, code_at + 32 * place, texts_at, texts, counter_at)
        for place, function in enumerate(functions)
    )
    table = _symbol_table(functions, variables, names, code_at, variables_at)
    numbers = [0, 1, *(2 + named.index(one.version) if one.version else 1 for one in defined)]
    memory_end = variables_at + Variable.SIZE * len(variables)
    image = bytearray(file_end)
    parts = (
        (0, _headers(dynamic_at, 16 * len(dynamic), file_end, memory_end)),
        (symbols_at, table),
        (hash_at, hashes),
        (numbers_at, struct.pack(f"<{count}H", *numbers)),
        (versions_at, definitions),
        (relocation_at, struct.pack("<QQq", counter_at, 1 << 32 | _GLOB_DAT, 0)),
        (names_at, names.bytes),
        (code_at, code),
        (texts_at, texts.bytes),
        (dynamic_at, b"".join(struct.pack("<qQ", *entry) for entry in dynamic)),
    )  # fmt: skip
    for at, part in parts:
        image[at : at + len(part)] = part
    return bytes(image)


class _Strings:
    """A table of texts that end with a zero."""

    def __init__(self) -> None:
        self.bytes = bytearray(1)
        self._at = {"": 0}

    def offset_of(self, text: str) -> int:
        """Returns the offset of a text; the first call puts it there."""
        if text not in self._at:
            self._at[text] = len(self.bytes)
            self.bytes += text.encode() + b"\0"
        return self._at[text]


def _code(function: Function, at: int, texts_at: int, texts: _Strings, counter_at: int) -> bytes:
    """Returns the 32 bytes of a function that begins at an address."""
    begin = b"\xf3\x0f\x1e\xfa"  # endbr64
    number = struct.pack("<I", function.number & 0xFFFFFFFF)
    if function.counted:
        name = struct.pack("<i", texts_at + texts.offset_of(function.name) - at - 11)
        counter = struct.pack("<i", counter_at - at - 22)
        # lea rdi, [rip + name]; mov esi, number; jmp [rip + counter]
        body = b"\x48\x8d\x3d" + name + b"\xbe" + number + b"\xff\x25" + counter
    elif function.text:
        text = struct.pack("<i", texts_at + texts.offset_of(function.text) - at - 11)
        body = b"\x48\x8d\x05" + text + b"\xc3"  # lea rax, [rip + text]; ret
    else:
        body = b"\xb8" + number + b"\xc3"  # mov eax, number; ret
    return (begin + body).ljust(32, b"\xcc")


def _headers(dynamic_at: int, dynamic_size: int, file_end: int, memory_end: int) -> bytes:
    """Returns the header of the file and those of its segments."""
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    data, memory = file_end - dynamic_at, memory_end - dynamic_at
    segments = (
        (1, 5, 0, 0, 0, dynamic_at, dynamic_at, _PAGE),
        (1, 6, dynamic_at, dynamic_at, dynamic_at, data, memory, _PAGE),
        (2, 6, dynamic_at, dynamic_at, dynamic_at, dynamic_size, dynamic_size, 8),
        (0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # the stack is not executable
    )
    head = (ident, 3, _X86_64, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0)
    packed = [struct.pack("<IIQQQQQQ", *segment) for segment in segments]
    return struct.pack("<16sHHIQQQIHHHHHH", *head) + b"".join(packed)


def _symbol_table(
    functions: Sequence[Function],
    variables: Sequence[Variable],
    names: _Strings,
    code_at: int,
    variables_at: int,
) -> bytes:
    """Returns the symbols: one without a name, the counter, the functions and the variables."""
    # Sections 1 and 2 are any but 0, which means undefined; there is no table of sections.
    symbols = [(0, 0, 0, 0, 0, 0), (names.offset_of(_COUNTER), _WEAK, 0, 0, 0, 0)]
    for place, function in enumerate(functions):
        symbols.append((names.offset_of(function.name), _FUNCTION, 0, 1, code_at + 32 * place, 32))
    for place, variable in enumerate(variables):
        where, size = variables_at + Variable.SIZE * place, Variable.SIZE
        symbols.append((names.offset_of(variable.name), _VARIABLE, 0, 2, where, size))
    return b"".join(struct.pack("<IBBHQQ", *symbol) for symbol in symbols)


def _hash_table(symbols: Sequence[str]) -> bytes:
    """Returns the loader's table: buckets of chains of symbols, of which number 0 has no name."""
    buckets = len(symbols)
    heads, chain = [0] * buckets, [0] * len(symbols)
    for place, name in enumerate(symbols[1:], 1):
        bucket = _hash(name) % buckets
        chain[place], heads[bucket] = heads[bucket], place
    return struct.pack(f"<{2 + 2 * buckets}I", buckets, len(symbols), *heads, *chain)


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _definitions(soname: str, versions: Sequence[str], names: _Strings) -> bytes:
    """Returns the table of versions: the library's own, which is number 1, then the others."""
    result = b""
    for place, version in enumerate([soname, *versions]):
        following = 28 if place < len(versions) else 0
        result += struct.pack(
            "<HHHHIIIII", 1, place == 0, 1 + place, 1, _hash(version), 20, following,
            names.offset_of(version), 0,
        )  # fmt: skip
    return result


def _up(number: int, step: int) -> int:
    return -(-number // step) * step
