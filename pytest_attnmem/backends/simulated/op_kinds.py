"""Kinds of operators, told by PyTorch's dispatcher and by their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator


def is_factory(func: Any) -> bool:
    """Returns whether the operator takes a device and no tensor, and makes tensors."""
    if func is torch.ops.aten.scalar_tensor.default or isinstance(func, HigherOrderOperator):
        return False
    arguments = func._schema.arguments
    return any(argument.name == "device" for argument in arguments) and not any(
        "Tensor" in str(argument.type) for argument in arguments
    )


def is_for_host(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Returns whether a factory makes a number, or names a device or pinned memory."""
    device = kwargs.get("device")
    elsewhere = device is not None and device.type != "cpu"
    number = not args or (isinstance(args[0], (list, tuple)) and not args[0])
    return elsewhere or number or bool(kwargs.get("pin_memory"))


def is_composite(func: Any) -> bool:
    """Returns whether C++ code makes the operator of other operators, for CUDA too."""
    name = func.name()
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta")
        and name not in OF_CUDA
    )


#: Composites that have a kernel of their own on CUDA, which a build for the CPU does not know.
OF_CUDA = frozenset({"aten::_fused_rms_norm", "aten::mish_backward", "aten::silu_backward"})


def in_cpp(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The composite as C++ has it: ``decompose`` would prefer Python's, which may differ."""
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
