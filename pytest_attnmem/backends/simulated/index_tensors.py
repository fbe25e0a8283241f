"""Index tensors as ATen prepares them: masks become places, and tensors of the host are moved.

A program may index a tensor of the device by tensors of the host. Their copies are on the device
as long as the operator runs. Sources, in aten/src/ATen/native: TensorAdvancedIndexing.cpp
(``make_info``), cuda/Indexing.cu (``makeLinearIndex``) and IndexingUtils.h (``expandTensors``).
"""

from __future__ import annotations

from typing import Any, Final

import torch

MASKS: Final = (torch.bool, torch.uint8)


def expanded(indices: Any) -> list[Any]:
    """Returns the indices, with the places of the elements of each mask."""
    found: list[Any] = []
    for index in indices:
        if index is not None and index.dtype in MASKS:
            places = index.nonzero()
            found += [places.select(1, dim) for dim in range(index.dim())]
        else:
            found.append(index)
    return found


def tells_count(tensor: Any, indices: Any, values: Any) -> bool:
    """Returns True if the shape of ``values`` tells how many elements the only mask has."""
    dim, mask = next((dim, index) for dim, index in enumerate(indices) if index is not None)
    behind = tensor.dim() - dim - mask.dim()
    return bool(values.dim() > behind and values.shape[-behind - 1] != 1)


def any_on_host(tensor: Any, indices: Any) -> bool:
    """Returns True if tensors of the host index one of the device."""
    if tensor.device.type == "cpu":
        return False
    return any(index is not None and index.device.type == "cpu" for index in indices)


def on_device(tensor: Any, indices: Any) -> list[Any]:
    """Returns the indices as an operator reads them: of one shape, on the device, as int64."""
    found = _of_one_shape(expanded(indices))
    for dim, index in enumerate(found):
        if index is not None and index.device != tensor.device:
            found[dim] = index.to(tensor.device)
    for dim, index in enumerate(found):
        if index is not None and index.dtype is torch.int32:
            found[dim] = index.to(torch.int64)
    return found


def are_numbers(indices: Any) -> bool:
    """Returns True if each index is of int64."""
    return all(index is None or index.dtype is torch.int64 for index in indices)


def as_numbers(indices: Any) -> list[Any]:
    """Returns the indices as int64; the sort of ``index_put_`` reads them where they are."""
    return [
        index.to(torch.int64) if index is not None and index.dtype is torch.int32 else index
        for index in expanded(indices)
    ]


def _of_one_shape(indices: list[Any]) -> list[Any]:
    shapes = [index.shape for index in indices if index is not None]
    try:
        shape = torch.broadcast_shapes(*shapes)
    except RuntimeError:  # the operator itself has the error
        return indices
    return [
        index if index is None or index.shape == shape else index.expand(shape) for index in indices
    ]
