"""Kinds of operators, read from PyTorch's dispatcher and from schemas."""

from __future__ import annotations

from typing import Any

import torch

_PYTHON_KERNELS = (
    torch._C.DispatchKey.CUDA,
    torch._C.DispatchKey.CompositeExplicitAutograd,
)
#: The namespaces of PyTorch's operators, some of which have kernels in Python for other uses.
_PYTORCHS = frozenset(
    {"aten", "prims", "prim", "c10d", "_c10d_functional", "inductor", "quantized", "attnmem"}
)
#: Composites that have their own kernel on CUDA, which is not registered in a CPU build.
CUDA_KERNELS = frozenset({"aten::_fused_rms_norm", "aten::mish_backward", "aten::silu_backward"})


def in_cpp(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs the composite in C++; ``decompose`` prefers Python code, which may differ."""
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def on_cuda(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs the Python code that is an operator's kernel on CUDA, or on every device."""
    for key in _PYTHON_KERNELS:
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key.name):
            return op._op_dk(key, *args, **kwargs)
    return NotImplemented


def in_autograd(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs PyTorch's own code of autograd."""
    return op._op_dk(torch._C.DispatchKey.Autograd, *args, **kwargs)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor that transforms of ``torch.func`` have wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor
