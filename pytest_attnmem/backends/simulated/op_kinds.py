"""Kinds of operators, read from PyTorch's dispatcher and from schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator


def is_factory(func: Any) -> bool:
    """Returns True if the operator makes tensors from a device and no tensor."""
    if func is torch.ops.aten.scalar_tensor.default or isinstance(func, HigherOrderOperator):
        return False
    arguments = func._schema.arguments
    return any(argument.name == "device" for argument in arguments) and not any(
        "Tensor" in str(argument.type) for argument in arguments
    )


def is_for_host(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Returns True if a factory makes a single number, or is given a device or pinned memory."""
    device = kwargs.get("device")
    elsewhere = device is not None and device.type != "cpu"
    number = not args or (isinstance(args[0], (list, tuple)) and not args[0])
    return elsewhere or number or bool(kwargs.get("pin_memory"))


def is_composite(func: Any) -> bool:
    """Returns True if C++ code composes the operator of other operators, on CUDA too."""
    name = func.name()
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta")
        and name not in CUDA_KERNELS
    )


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


def is_in_python(func: Any) -> bool:
    """Returns True for an operator of a program, or of ``fully_shard``, that is Python code.

    See ``torch.library.custom_op``; the code calls other operators.
    """
    if getattr(func, "namespace", "aten") in _PYTORCHS:
        return False
    name = func._schema.name.replace("::", "/")
    overload = f".{func._schema.overload_name}" if func._schema.overload_name else ""
    return any(f"{name}{overload}/{key.name}" in torch.library._impls for key in _PYTHON_KERNELS)


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
