"""The shape of a tensor that a pointwise operator writes in place: the others must fit into it.

PyTorch checks it in ``TensorIterator`` (aten/src/ATen/TensorIterator.cpp, ``mark_resize_outputs``);
some of its rules of sizes do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

#: Pointwise too, but not tagged by PyTorch.
_UNTAGGED: Final = frozenset(
    f"aten::{name}_" for name in ("eq", "ne", "ge", "gt", "le", "lt", "floor_divide")
)


def writes_pointwise(func: Any) -> bool:
    """Returns True for a pointwise operator in place that reads other tensors."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.name.startswith("aten::") or not schema.is_mutable:
        return False
    if any(argument.is_out for argument in schema.arguments):
        return False
    if torch.Tag.pointwise not in func.tags and schema.name not in _UNTAGGED:
        return False
    return sum("Tensor" in str(argument.type) for argument in schema.arguments) > 1


def check_written_shape(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Checks that the other tensors fit into the first.

    Raises:
        RuntimeError: together they have another shape; PyTorch's error.
    """
    shape, others = args[0].shape, (*args[1:], *kwargs.values())
    shapes = {other.shape for other in others if isinstance(other, torch.Tensor)} - {shape}
    if not shapes:
        return
    try:
        every = torch.broadcast_shapes(shape, *shapes)
    except RuntimeError:
        return  # the operator has the error
    if every != shape:
        raise RuntimeError(
            f"output with shape {[*shape]} doesn't match the broadcast shape {[*every]}"
        )
