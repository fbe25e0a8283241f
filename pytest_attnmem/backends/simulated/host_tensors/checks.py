"""PyTorch's checks that the tensors of a call are on one device, by the texts of their errors.

A wrapper that is generated around most kernels of CUDA compares all tensors (``aten/src/ATen/core/
op_registration/adaption.h``, ``torchgen/dest/register_dispatch_key.py``). Operators of elements
leave that to ``TensorIterator``, which lets some of them take numbers of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch

from .operands import Placed, is_mixed

#: Returns the text of the error for the tensors of a call, or "".
Check = Callable[[tuple[Placed, ...]], str]

TWO_DEVICES: Final = (
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
)
TOO_MANY: Final = "Trying to pass too many CPU scalars to non-CPU kernel!"


def _wrapper(method: str, tensors: tuple[Placed, ...]) -> str:
    """Compares the outputs and the positional arguments, in this order, with the first of them."""
    order = [each for each in tensors if each.is_output and each.keyword]
    order += [each for each in tensors if not each.keyword]
    for tensor in order:
        if tensor.on_host != order[0].on_host:
            return (
                f"Expected all tensors to be on the same device, but got {tensor.name} is on"
                f" {tensor.device}, different from other tensors on {order[0].device} (when"
                f" checking argument in method wrapper_CUDA_{method})"
            )
    return ""


def _method(name: str, overload: str, overload_first: bool) -> str:
    """Returns the name of the wrapper of an operator: of a structured kernel, or of another."""
    if overload_first:
        return f"{overload}_{name}"
    return f"{name}_{overload}" if overload else name


def _iterator(most: int, tensors: tuple[Placed, ...]) -> str:
    """Checks the operands as ``TensorIterator`` does, which compares their shapes before."""
    if not _broadcast(tensors):
        return ""
    singles = 0
    for tensor in sorted(tensors, key=lambda tensor: not tensor.is_output):
        if not tensor.on_host:
            continue
        if not most or tensor.is_output or tensor.shape:
            return TWO_DEVICES
        if singles == most:
            return TOO_MANY
        singles += 1
    return ""


def _broadcast(tensors: tuple[Placed, ...]) -> bool:
    """Returns True if the shapes fit each other, and the tensor that is written in place."""
    try:
        shape = torch.broadcast_shapes(*(each.shape for each in tensors if not each.keyword))
    except RuntimeError:
        return False
    return all(each.shape == shape for each in tensors if each.is_output and not each.keyword)


def _ldexp(tensors: tuple[Placed, ...]) -> str:
    """Checks ``ldexp``, whose kernel for integers as exponents takes no number of the host."""
    floating = {each.name: each.floating for each in tensors}
    return _iterator(0 if floating["self"] and not floating["other"] else 1, tensors)


def _nothing(_: tuple[Placed, ...]) -> str:
    return ""


def _copied_out(check: Check, tensors: tuple[Placed, ...]) -> str:
    """Checks an operator that computes without its outputs, and then copies into them."""
    inputs = tuple(each for each in tensors if not (each.is_output and each.keyword))
    if is_mixed(inputs) and (text := check(inputs)):
        return text
    device = "cpu" if all(each.on_host for each in inputs) else "cuda:0"
    for each in tensors:
        if each.is_output and each.keyword and each.device != device:
            return f"Expected out tensor to have device {device}, but got {each.device} instead"
    return ""


def check_of(recipe: str, name: str, overload: str) -> Check:
    """Returns the check of an operator by its name in a recording."""
    kind, _, detail = recipe.partition(" ")
    if kind == "out":
        return partial(_copied_out, check_of(detail, name, overload) if detail else _nothing)
    if kind == "wrapper":
        return partial(_wrapper, detail)
    if kind == "ldexp":
        return _ldexp
    if kind == "elements":
        return partial(_iterator, int(detail))
    name += detail and "_out"
    return partial(_wrapper, _method(name, overload, overload_first=kind == "unstructured"))


#: The checks by name, the simplest first.
PLAIN: Final = (
    *("structured", "unstructured", "structured out", "unstructured out"),
    *(f"elements {most}" for most in (0, 1, 2)),
)


def by_place(texts: Mapping[str, str], tensors: tuple[Placed, ...]) -> str:
    """Returns the text for the first place that refuses its tensor of the host."""
    found = (texts.get(tensor.kind, "") for tensor in tensors if tensor.on_host)
    return next(filter(None, found), "")


def by_place_in_lists(texts: Mapping[str, str], tensors: tuple[Placed, ...]) -> str:
    """Returns that text for the first row of lists that an operator handles row by row."""
    for row in range(1 + max(each.place for each in tensors)):
        group = tuple(each for each in tensors if each.place in (row, -1))
        if is_mixed(group) and (text := by_place(texts, group)):
            return text
    return ""
