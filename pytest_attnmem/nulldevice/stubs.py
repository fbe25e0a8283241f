"""The calls into CUDA's libraries that no source file defines: what they return, and their names.

The driver's are compiled into the runtime; those that the installed torch can make are written as
libraries, without a compiler: one that is preloaded beside the runtime, and one in the place of
each library of NVIDIA's that is not installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from . import elf
from .elf import Function, Variable, is_written, write

#: Preloaded; torch's calls of libraries that are there.
CALLS = "libattnmem-calls.so"

#: A function that only libraries of stubs have, by which the runtime tells them from real ones.
_MARK = "attnmem_null_is_missing"

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

#: The libraries of NVIDIA's that torch may name. No other is replaced.
_NVIDIA = re.compile(r"lib(cu|nv|nccl|npp)\w*\.so[.\d]*")
#: Their functions. A stub of another name, such as ``operator new``, would end the process.
_FUNCTION = re.compile(r"p?nccl\w+|cuFile\w+|cu[a-z]\w+|nv[a-zA-Z]\w+")
#: Functions that return a text, which a number would be read as the address of.
_TEXT = re.compile(
    r"\w+(Get|_get)\w*(ErrorString|ErrorName|LastError|StatusString|ResultString)|nvshmem\w*_name"
)
#: Functions that return the address of memory; none is 0.
_ADDRESS = re.compile(r"nvshmem\w*_(malloc|calloc|align|ptr)")

_SOURCE = """/* Generated: calls of the driver that no source defines. */
#include <stdbool.h>
#include <string.h>

long attnmem_null_stub(const char *name, long result);

#define STUB(name, result)                              \\
    __attribute__((visibility("default"))) int name(void) \\
    {{                                                   \\
        return (int)attnmem_null_stub(#name, result);   \\
    }}
{definitions}

bool null_is_stub(const char *name)
{{
    static const char *const names[] = {{{names}NULL}};
    for (size_t i = 0; names[i]; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}}
"""


def declared(header: str) -> frozenset[str]:
    """Returns the names of the driver's functions that its header ``cuda.h`` declares."""
    return frozenset({*_DECLARED.findall(header), *_RENAMED.findall(header)})


def source(names: Iterable[str]) -> str:
    """Returns C source that defines functions of the driver, which count their calls."""
    functions = [stub(name) for name in sorted(names)]
    return _SOURCE.format(
        definitions="\n".join(f"STUB({one.name}, {one.number})" for one in functions),
        names="".join(f'"{one.name}", ' for one in functions),
    )


def stub(name: str, version: str = "") -> Function:
    """Returns the stub of a function.

    A product computes nothing and a setting changes nothing, so calls of cuBLAS are not counted.
    All other calls are counted: an action succeeds, and a query fails. So does every call of cuFFT,
    cuSOLVER and cuSPARSE.
    """
    for library, not_supported in _REFUSED.items():
        if name.startswith(library) and not name.startswith("cusparseLt"):
            return Function(name, not_supported, counted=True, version=version)
    blas = name.startswith("cublas")
    if _ASKS.search(name) or not _WANTED.match(name):
        number = _BLAS_NOT_SUPPORTED if blas else _NOT_SUPPORTED
        return Function(name, number, counted=True, version=version)
    return Function(name, counted=not blas, version=version)


def of_calls(imported: Iterable[str], exported: Iterable[str], defined: frozenset[str]) -> bytes:
    """Returns the preloaded library: torch's imports and the exports of libraries it replaces.

    The names that the runtime *defined* are left to it.
    """
    names = {name for name in (*imported, *exported) if _WANTED.match(name)}
    return write(CALLS, [stub(name) for name in names - defined - _LEFT_ALONE])


def of_missing(folder: Path, runtime: Iterable[str], cudnn_version: int) -> Mapping[str, bytes]:
    """Returns a library for each of NVIDIA's that torch names and that is not there, by file name.

    ``folder`` is torch's; ``runtime`` are file names that the null runtime has. ``cudnn_version``
    is that of the cuDNN which this torch is made for: with another, SDPA silently chooses
    another kernel.
    """
    files = (*(folder / "lib").glob("*.so*"), *folder.glob("_C*.so"))
    own = {
        path.name: elf.read(path) for path in files if path.is_file() and not is_written(str(path))
    }
    rpath = {entry for library in own.values() for entry in library.rpath}
    needed = {name for library in own.values() for name in library.needed}
    named = {name for name in needed - set(own) - {*runtime} if _NVIDIA.fullmatch(name)}
    found = {name: _installed(name, folder / "lib", rpath) for name in named}
    absent = sorted(name for name, path in found.items() if path is None)
    if not absent:
        return {}
    present = [elf.read(path) for path in found.values() if path is not None]
    known = {
        one.name for library in (*own.values(), *present) for one in library.symbols if one.defined
    }
    wanted: dict[str, set[elf.Symbol]] = {name: set() for name in absent}
    versions: dict[str, set[str]] = {name: set() for name in absent}
    for library in own.values():
        for name, versions_of in library.versions.items():
            versions.get(name, set()).update(versions_of)
        for symbol in library.symbols:
            if symbol.library in wanted and not symbol.defined:
                wanted[symbol.library].add(symbol)
    # The loader looks for a symbol without a version in every library, so one may have them all.
    loose = {
        symbol
        for library in own.values()
        for symbol in library.symbols
        if not symbol.defined and not symbol.library
        and symbol.name not in known and _FUNCTION.fullmatch(symbol.name)
    }  # fmt: skip
    wanted[next((name for name in absent if not versions[name]), absent[0])] |= loose
    return {name: _library(name, wanted[name], versions[name], cudnn_version) for name in absent}


def _installed(name: str, folder: Path, rpath: Iterable[str]) -> Path | None:
    """Returns where the loader finds a library: beside torch, or in NVIDIA's packages."""
    for entry in sorted(rpath):
        place = entry.replace("${ORIGIN}", str(folder)).replace("$ORIGIN", str(folder))
        path = Path(place) / name
        if path.is_file() and not is_written(str(path)):
            return path
    return None


def _library(
    name: str, symbols: Iterable[elf.Symbol], versions: Iterable[str], cudnn_version: int
) -> bytes:
    functions, variables = [Function(_MARK)], []
    for symbol in symbols:
        version = symbol.version
        if symbol.kind == elf.OBJECT:
            variables.append(Variable(symbol.name, version))
        elif symbol.name == "cudnnGetVersion":
            functions.append(Function(symbol.name, cudnn_version, version=version))
        elif _TEXT.fullmatch(symbol.name):
            functions.append(
                Function(symbol.name, text=f"{name} is not installed", version=version)
            )
        elif _ADDRESS.fullmatch(symbol.name):
            functions.append(Function(symbol.name, counted=True, version=version))
        else:
            functions.append(stub(symbol.name, version))
    return write(name, functions, variables, versions)
