"""Why a call of cuDNN makes a window not enforced: its scratch is known on a GPU alone."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

_WITHOUT = "PyTorch's own can be had with torch.backends.cudnn.flags(enabled=False)"
_GPU = "takes scratch that is known on a GPU alone"

#: The reason, by a part of the function's name; the first that is found.
_REASONS = MappingProxyType(
    {
        "BatchNormalization": f"cuDNN's batch normalisation {_GPU}; {_WITHOUT}",
        "RNN": f"cuDNN's recurrent network {_GPU}; {_WITHOUT}",
        "Dropout": f"cuDNN's recurrent network {_GPU}; {_WITHOUT}",
        "CTC": f"cuDNN's CTC loss {_GPU}; {_WITHOUT}",
        "Convolution": f"cuDNN's older convolution {_GPU}; unset TORCH_CUDNN_V8_API_DISABLED",
        "cudnnCreate": "the installed cuDNN cannot plan without a GPU; cuDNN 9.8 and newer can",
    }
)


def unplanned(functions: Iterable[str]) -> str | None:
    """Returns why these functions of cuDNN have unknown scratch; None if none is cuDNN's."""
    called = [name for name in functions if name.startswith("cudnn")]
    for part, reason in _REASONS.items():
        if any(part in name for name in called):
            return reason
    return f"the null device does not know {', '.join(called)}" if called else None
