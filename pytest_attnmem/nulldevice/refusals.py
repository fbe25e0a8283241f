"""What the null device refuses, by the calls of libraries that ask for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from . import parts, torch_build

#: What is refused, by patterns of the names of calls; the first that fits.
_REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        r"cu(da)?Ipc": "nothing can be given to another process by CUDA IPC; give a copy on the"
        " host, x.cpu()",
        r"cusparseLt": "there is no cuSPARSELt, which multiplies semi-structured matrices",
        r"cusparse": "there is no cuSPARSE: its scratch is known only on a GPU",
        r"cu\w*(MemPool|MallocAsync|FreeAsync|MallocFromPool)": "there is no cudaMallocAsync; leave"
        " backend:cudaMallocAsync out of PYTORCH_ALLOC_CONF",
        r"cuGreenCtx|cu\w*DevResource|cu\w*DevSm": "there are no green contexts",
        r"cuGetExportTable": "there is no driver for a library with a CUDA runtime of its own, as"
        " cuda.bindings is, which makes green contexts",
    }
)


def refusal(call: str) -> str:
    """Returns what is refused with a call; empty if that is the call alone."""
    for reason in missing_libraries([call]):
        return reason
    return next((why for pattern, why in _REFUSED.items() if re.match(pattern, call)), "")


def missing_libraries(calls: Iterable[str]) -> Iterator[str]:
    """Yields what to install for the calls of libraries that are not installed."""
    for call in calls:
        library, part = _missing_library(call), parts.part_of(call)
        if library and part == "cudnn" and (why := parts.unplannable(torch_build.find())):
            yield why
        elif library:
            yield f"{library} is not installed, which has {call}: {remedy(part)}"


def remedy(part: str) -> str:
    """Returns how to install a part that the null device lacks, with the names of its packages."""
    packages = " ".join(parts.requirements(torch_build.find(), part))
    return f"attnmem install null --with {part}" + (f" ({packages})" if packages else "")


def _missing_library(call: str) -> str:
    """Returns the library of stubs, such as libcudnn.so.9, that a call of a part came to."""
    folder, part = os.environ.get("ATTNMEM_NULL_PLANS"), parts.part_of(call)
    found = sorted(Path(folder).glob(f"lib{part}.so.*")) if folder and part else []
    return found[0].name if found else ""


def refusals(calls: Iterable[str]) -> dict[str, list[str]]:
    """Returns the calls that belong to something that is refused, by what that is."""
    found: dict[str, list[str]] = {}
    for call in calls:
        if why := refusal(call):
            found.setdefault(why, []).append(call)
    return found


_WITHOUT = "PyTorch's own can be had with torch.backends.cudnn.flags(enabled=False)"
_GPU = "takes scratch that is known on a GPU alone"
_OUTSIDE = "keep it out of the window"

#: The reason, by a part of the function's name; the first that is found.
_CUDNN = MappingProxyType(
    {
        "BatchNormalization": f"cuDNN's batch normalisation {_GPU}; {_WITHOUT}",
        "RNN": f"cuDNN's recurrent network {_GPU}; {_WITHOUT}",
        "Dropout": f"cuDNN's recurrent network {_GPU}; {_WITHOUT}",
        "CTC": f"cuDNN's CTC loss {_GPU}; {_WITHOUT}",
        "Convolution": f"cuDNN's older convolution {_GPU}; unset TORCH_CUDNN_V8_API_DISABLED",
        "cudnnCreate": "the installed cuDNN cannot plan without a GPU; cuDNN 9.8 and newer can",
    }
)
#: The functions of cuSOLVER that tell a size: dtype, decomposition.
_SOLVER = re.compile(r"cusolverDn[SDCZX](\w+)_bufferSize")


def unplanned(functions: Iterable[str]) -> str | None:
    """Returns why these functions have unknown scratch; None if none is of such a library."""
    called = list(functions)
    for name in called:
        if found := _SOLVER.fullmatch(name):
            return f"cuSOLVER's {found[1]} {_GPU}; {_OUTSIDE}"
    if "cufftXtExec" in called:
        return f"cuFFT {_GPU}; {_OUTSIDE}"
    of_cudnn = [name for name in called if name.startswith("cudnn")]
    for part, reason in _CUDNN.items():
        if any(part in name for name in of_cudnn):
            return reason
    return f"the null device does not know {', '.join(of_cudnn)}" if of_cudnn else None
