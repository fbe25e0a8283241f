"""Why a call of a library makes a window not enforced: its scratch is known on a GPU alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType

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
