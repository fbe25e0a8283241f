"""Addresses of the device, in a range without memory: a stray read there gives zeros."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

#: More bytes than most processes ever allocate in all. Addresses beyond the range are numbers that
#: nobody else has, and that nobody may read.
_RANGE: Final = 1 << 45
_NORESERVE: Final = 0x4000
#: The allocator of CUDA aligns to so many bytes.
_STEP: Final = 512


class Addresses:
    """Hands out each address once, so that one tells a storage from all others of the process."""

    def __init__(self) -> None:
        self._mapped = _mapped()
        self._next = _RANGE if self._mapped is None else _start_of(self._mapped)

    def take(self, nbytes: int) -> int:
        """Returns the address of so many bytes."""
        address = self._next
        self._next += -(-nbytes // _STEP) * _STEP
        return address


def _mapped() -> mmap.mmap | None:
    """Returns memory that takes no room; None where the system has none of its kind to give."""
    if not sys.platform.startswith("linux"):
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    try:
        return mmap.mmap(-1, _RANGE, flags=flags, prot=mmap.PROT_READ)
    except (OSError, ValueError, OverflowError):  # a limit of the process's addresses
        return None


class _Buffer(ctypes.Structure):
    """``Py_buffer``, of which the first field counts."""

    _fields_ = (("buf", ctypes.c_void_p), ("rest", ctypes.c_void_p * 12))


def _start_of(mapped: mmap.mmap) -> int:
    found = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapped), ctypes.byref(found), 0)
    return int(found.buf)
