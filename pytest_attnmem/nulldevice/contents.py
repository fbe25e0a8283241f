"""The contents of device memory that the host knows: the last upload, and answers to reads."""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from .counts import runtime

#: More bytes than any read has.
_ALL = 2**62
_ANSWER: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


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


def ask(known: Callable[[int, int, int], bool]) -> Any:
    """Asks a function for the bytes of reads without an announced answer, until the process ends.

    Returns an object that the caller keeps for as long.

    It gets the address on the host, the address on the device and the size of the read. It copies
    the bytes, or returns False; it must not raise. The reading thread calls it.
    """
    answer = _ANSWER(known)
    _ask(answer)
    atexit.register(_ask, _ANSWER())
    return answer


def _ask(answer: Any) -> None:
    listen = runtime().attnmem_null_ask
    listen.argtypes, listen.restype = (_ANSWER,), None
    listen(answer)
