"""The contents of device memory that the host knows: the last upload, and answers to reads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from .counts import runtime

#: More bytes than any read has.
_ALL = 2**62


def foreign_launches() -> ctypes.c_ulong:
    """Returns the counter of launches of kernels that are not PyTorch's own; it is live."""
    return ctypes.c_ulong.in_dll(runtime(), "attnmem_null_foreign_launches")


def unanswered_reads() -> ctypes.c_ulong:
    """Returns the counter of reads that got zeros; it is live."""
    return ctypes.c_ulong.in_dll(runtime(), "attnmem_null_read_count")


def uploaded(address: int, into: int, size: int) -> bool:
    """Copies the bytes that this thread copied last from the host to *address* on the device.

    Returns False, and copies nothing, if the last copy was another one.
    """
    read = runtime().attnmem_null_uploaded
    read.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return bool(read(address, into, size))


@contextmanager
def answered(answer: bytes | None = None) -> Iterator[list[int]]:
    """Answers this thread's reads of device memory; None answers all of them with zeros.

    Yields a list that has, afterwards, the number of bytes that nobody read.
    """
    expect = runtime().attnmem_null_expect
    expect.argtypes, expect.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    left: list[int] = []
    expect(answer, _ALL if answer is None else len(answer))
    try:
        yield left
    finally:
        left.append(int(expect(None, 0)))
