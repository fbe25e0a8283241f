"""The frees of PyTorch's allocator, as PyTorch reports them to a tracer.

The tracer is an object of PyTorch's C++ class ``PyInterpreter``. The positions of its virtual
functions are read from the header that comes with PyTorch (``c10/core/impl/PyInterpreter.h``). The
tape notices if frees are not reported.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import BackendUnavailable
from .counts import runtime

_HEADER = "include/c10/core/impl/PyInterpreter.h"
_SET_TRACE = "_ZN3c104impl8GPUTrace9set_traceEPKNS0_13PyInterpreterE"
_DEALLOCATION = "trace_gpu_memory_deallocation"
_VIRTUAL = re.compile(r"^\s*virtual\b[^;{]*?(~?\w+)\s*\(", re.MULTILINE)
_MOST = 4096


class Frees:
    """The addresses that the allocator frees, from the first call of ``follow`` on."""

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

    def take(self) -> Iterator[int]:
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
