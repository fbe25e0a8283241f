"""The contents of device memory that the host knows: uploads, answers to reads, and frees."""

from __future__ import annotations

import atexit
import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BackendUnavailable
from .counts import Listener, runtime

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


class _Reads(Listener):
    """Calls a function at each read without an announced answer."""

    _listen = "attnmem_null_ask"
    _kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def ask(known: Callable[[int, int, int], bool]) -> None:
    """Asks a function for the bytes of reads without an announced answer, until the process ends.

    It gets the address on the host, the address on the device and the size of the read. It copies
    the bytes, or returns False; it must not raise. The reading thread calls it.
    """
    reads = _Reads(known)
    reads.start()
    atexit.register(reads.stop)


_HEADER = "include/c10/core/impl/PyInterpreter.h"
_SET_TRACE = "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE"
_DEALLOCATION = "trace_gpu_memory_deallocation"
_VIRTUAL = re.compile(r"^\s*virtual\b[^;{]*?(~?\w+)\s*\(", re.MULTILINE)
_MOST = 4096


class Frees:
    """The addresses that PyTorch's allocator frees, from the first call of ``follow`` on.

    PyTorch reports them to a tracer, an object of its C++ class ``PyInterpreter``. The positions of
    its virtual functions are read from the header that comes with PyTorch
    (``c10/core/impl/PyInterpreter.h``). The tape notices if frees are not reported.
    """

    def __init__(self) -> None:
        self._library = runtime()
        self._count = ctypes.c_ulong.in_dll(self._library, "attnmem_null_frees")
        self._taken = 0
        self._addresses = (ctypes.c_size_t * _MOST)()

    def follow(self) -> None:
        """Makes PyTorch report its frees, for the rest of the process.

        Raises:
            BackendUnavailable: this torch has no such report.
        """
        import torch

        folder = Path(torch.__file__).parent
        names = virtual_functions(folder.joinpath(_HEADER).read_text("utf-8"))
        make = self._library.attnmem_null_tracer
        make.restype = ctypes.c_void_p
        make.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
        report = getattr(ctypes.CDLL(str(folder / "lib" / "libc10.so")), _SET_TRACE, None)
        if report is None or _DEALLOCATION not in names:
            raise BackendUnavailable(
                f"torch {torch.__version__} does not report the frees of its allocator, which the"
                " null device needs to follow values"
            )
        report.argtypes = (ctypes.c_void_p,)
        report(make(len(names), names.index(_DEALLOCATION)))

    def drain(self) -> Iterator[int]:
        """Yields the addresses that were freed since the last call, in their order."""
        while self._taken != self._count.value:
            found = self._library.attnmem_null_take_freed(self._addresses, _MOST)
            self._taken += found
            yield from self._addresses[:found]


def virtual_functions(header: str) -> list[str]:
    """Returns the names in a table of virtual functions; a destructor has two places."""
    names = []
    for name in _VIRTUAL.findall(header):
        names += [name, name] if name.startswith("~") else [name]
    return names
