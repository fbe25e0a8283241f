"""TorchScript's traces, which record the operators of a call and then run the code again to check.

PyTorch's C++ code records fakes, compares graphs with the names of this package's frames, and reads
constants. So what it takes on a device is not what it takes here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any, Final, NoReturn

import torch
from torch.utils._pytree import tree_leaves

from ...errors import CannotSimulate, MixedDevices
from .fake_tensor import SimulatedTensor
from .program_errors import at

Refused = Callable[[str], CannotSimulate]
_TRACERS: Final = ("trace", "trace_module")


def inside_windows(refused: Refused) -> dict[tuple[Any, str], Any]:
    """Returns the patches of ``torch.jit`` that refuse to trace, by owner and name."""

    def trace(func: Any, *_: Any, **__: Any) -> Any:
        if not torch.jit._state._enabled:  # PyTorch traces nothing then
            return func
        raise refused(
            f"torch.jit.trace{at()}, inside the measured code, cannot be simulated; trace in a"
            " fixture, set PYTORCH_JIT=0, or use backend='cpu' for this test"
        )

    cached = torch.is_autocast_cache_enabled()

    def export(*_: Any, **__: Any) -> NoReturn:
        torch.set_autocast_cache_enabled(cached)  # the exporter does so after the trace alone
        raise refused(
            f"a trace{at()}, as of torch.onnx.export(dynamo=False), cannot be simulated; use"
            " backend='cpu' for this test"
        )

    return {
        **dict.fromkeys(((torch.jit, name) for name in _TRACERS), trace),
        (torch.jit, "_get_trace_graph"): export,
    }


def outside_windows(refused: Refused) -> dict[tuple[Any, str], Any]:
    """Returns the patches of ``torch.jit`` that refuse what fails with simulated tensors."""

    cached = torch.is_autocast_cache_enabled()

    def followed(trace: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(trace)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return trace(*args, **kwargs)
            except Exception as error:
                if isinstance(error, MixedDevices) or not _on_device(args, kwargs):
                    raise
                torch.set_autocast_cache_enabled(cached)  # as the exporter does after a trace
                raise refused(
                    f"torch.jit.trace{at()} of this code on the device cannot be simulated; trace"
                    " it on the host, or use backend='cpu' for this test"
                ) from None

        return run

    names = (*_TRACERS, "_get_trace_graph")
    return {(torch.jit, name): followed(getattr(torch.jit, name)) for name in names}


def _on_device(args: tuple[Any, ...], kwargs: Any) -> bool:
    """Returns True if a traced module or an example is simulated."""
    values = tree_leaves((args, kwargs))
    modules = (value for value in values if isinstance(value, torch.nn.Module))
    tensors = chain.from_iterable(chain(m.parameters(), m.buffers()) for m in modules)
    return any(type(value) is SimulatedTensor for value in chain(values, tensors))
