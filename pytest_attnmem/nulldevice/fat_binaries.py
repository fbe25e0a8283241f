"""Gives back the disk space of the GPU's machine code in torch's libraries, which null never runs.

A library's section ``.nv_fatbin`` has containers of images, one for each architecture. The null
runtime reads their headers, which say for what a kernel was compiled; only the code becomes holes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import elf

_PAGE: Final = 4096
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of the images
_IMAGE = struct.Struct("<HHIQ")  # kind, version, size of this header, size of the code
_MAGIC: Final = 0xBA55ED50


def give_back(library: Path) -> int:
    """Makes holes of the GPU's code in a library; returns their bytes.

    The library must share its file with no other, as by a hard link.

    Raises:
        OSError: the file system makes no holes.
    """
    begin, size = elf.section(library, ".nv_fatbin")
    if not size:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    saved = 0
    with open(library, "r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            holes = list(_code(image, begin, begin + size))
        for start, end in holes:
            how = (ctypes.c_int(file.fileno()), ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE))
            if libc.fallocate64(*how, ctypes.c_int64(start), ctypes.c_int64(end - start)):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(library))
            saved += end - start
    return saved


def _code(image: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields where the whole pages of code begin and end."""
    while at + _CONTAINER.size <= end:
        magic, _, header, size = _CONTAINER.unpack_from(image, at)
        if magic != _MAGIC:
            at += 8  # containers are aligned
            continue
        last = at + header + size
        at += header
        while at + _IMAGE.size <= last:
            _, _, header, size = _IMAGE.unpack_from(image, at)
            start, stop = -(-(at + header) // _PAGE) * _PAGE, (at + header + size) // _PAGE * _PAGE
            if start < stop:
                yield start, stop
            at += header + size
        at = last
