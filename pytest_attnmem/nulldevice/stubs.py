"""Generates C source for the calls that no source file defines; it counts them by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType

from . import elf

_WANTED = re.compile(
    r"(__)?cuda[A-Z]|cublas(Lt|Xt)?[A-Z]|cufft[A-Z]|cusolver[A-Z]|cusparse(?!Lt)[A-Z]|cu(?!File)[A-Z]"
)

#: Names of queries. The stubs know no true answer, so they return "not supported".
_ASKS = re.compile(
    r"Get|Query|Create|Alloc|Malloc|Open|Import|Export|Find|Occupancy|Instantiate|Capture|Ipc"
    r"|Graph|Link|Library|Reserve|Add[A-Z]|Load|Can[A-Z]"
)
#: The real libraries define these without a driver.
_LEFT_ALONE = frozenset(
    {
        "cudaGetErrorName", "cudaGetErrorString", "cudaCreateChannelDesc",
        "cufftGetVersion", "cufftGetProperty", "cusolverGetVersion", "cusolverGetProperty",
        "cusparseGetErrorName", "cusparseGetErrorString", "cusparseGetProperty",
    }
)  # fmt: skip

_NOT_SUPPORTED = 801  # cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED
_BLAS_NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED
#: Libraries whose other functions have outputs that nobody fills in, so none of them succeeds.
_REFUSED = MappingProxyType({"cufft": 16, "cusolver": 9, "cusparse": 10})  # CU…_NOT_SUPPORTED

_DECLARED = re.compile(r"\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\(")
_RENAMED = re.compile(r"^\s*#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*_v\d)\s*$", re.MULTILINE)

_HEAD = """/* Generated: calls into CUDA that the installed torch can make and no source defines. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct unknown_call {
    const char *name;
    unsigned long calls;
    struct unknown_call *next;
};
void null_count(struct unknown_call *call);

#define QUIET(name) \\
    __attribute__((visibility("default"))) int name(void) { return 0; }
#define COUNTED(name, result)                               \\
    __attribute__((visibility("default"))) int name(void)   \\
    {                                                       \\
        static struct unknown_call call = {#name, 0, NULL}; \\
        null_count(&call);                                  \\
        return result;                                      \\
    }

"""
_TAIL = """
static const char *const names[] = {{{names}NULL}};

bool null_is_stub(const char *name)
{{
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}}
"""


def wanted(undefined: Iterable[str], exported: Iterable[str], header: str) -> frozenset[str]:
    """Returns the names to define: of torch's imports, the runtime's exports and the driver API."""
    declared = {*_DECLARED.findall(header), *_RENAMED.findall(header)}
    names = {name for name in (*undefined, *exported) if _WANTED.match(name)}
    return frozenset(names | declared) - _LEFT_ALONE


def source(names: Iterable[str]) -> str:
    """Returns C source that defines functions with these names.

    A product computes nothing and a setting changes nothing, so calls of cuBLAS are not counted.
    All other calls are counted: an action succeeds, and a query fails. So does every call of cuFFT,
    cuSOLVER and cuSPARSE.
    """
    ordered = sorted(names)
    lines = [_definition(name) for name in ordered]
    listed = "".join(f'"{name}", ' for name in ordered)
    return _HEAD + "\n".join(lines) + "\n" + _TAIL.format(names=listed)


def _definition(name: str) -> str:
    for library, not_supported in _REFUSED.items():
        if name.startswith(library):
            return f"COUNTED({name}, {not_supported})"
    blas = name.startswith("cublas")
    if _ASKS.search(name):
        return f"COUNTED({name}, {_BLAS_NOT_SUPPORTED if blas else _NOT_SUPPORTED})"
    return f"QUIET({name})" if blas else f"COUNTED({name}, 0)"


def read_undefined(libraries: Iterable[str]) -> frozenset[str]:
    """Returns the names that these libraries import from others."""
    return frozenset().union(*map(elf.undefined, libraries))


def read_defined(libraries: Iterable[str]) -> frozenset[str]:
    """Returns the names that these libraries define for others."""
    return frozenset().union(*map(elf.defined, libraries))
