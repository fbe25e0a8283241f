"""Methods of tensors that read their memory or describe it, in transforms of ``torch.func`` too.

A transform wraps the tensors of its function. C++ code finds no memory below a wrapper, but copies
that of a tensor whose gradient a transform computes into a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor

from .fake_tensor import SimulatedTensor
from .transforms import outside_of_transforms, unwrapped

_READS: Final = ("data_ptr", "__format__", "__dlpack__", "__dlpack_device__")
_OF_DATA: Final = ("numpy", "__array__")
_OF_PYTHON: Final = ("apply_", "map_")
_OF_STORAGE: Final = ("is_shared", "share_memory_", "__reduce_ex__", "__deepcopy__")
_NO_DATA: Final = "Cannot access data pointer of Tensor that doesn't have storage"


def reads() -> Mapping[Any, Callable[..., Any]]:
    """Returns the methods by those of PyTorch in whose place they are."""
    found = {name: getattr(SimulatedTensor, name) for name in _READS}
    for name in _OF_DATA:
        found[name] = partial(_read, getattr(SimulatedTensor, name), _no_data)
    for name in _OF_PYTHON:
        found[name] = partial(_read, getattr(SimulatedTensor, name), partial(_changed, name))
    for name in _OF_STORAGE:
        found[name] = partial(_read, getattr(SimulatedTensor, name), _no_storage)
    found["tolist"] = partial(_read, SimulatedTensor.tolist, _listed)
    found["__repr__"] = partial(_read, SimulatedTensor.__repr__, torch._tensor_str._str)
    return {getattr(torch.Tensor, name): function for name, function in found.items()}


def _read(
    own: Callable[..., Any], of_wrapped: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any
) -> Any:
    method = of_wrapped if is_functorch_wrapped_tensor(tensor) else own
    return method(tensor, *args, **kwargs)


def _no_data(tensor: Any, *_: Any, force: bool = False, **__: Any) -> Any:
    if tensor.requires_grad and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    raise RuntimeError(_NO_DATA)


def _changed(name: str, tensor: Any, *_: Any) -> Any:
    if tensor.requires_grad:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}()"
            " instead."
        )
    raise RuntimeError(_NO_DATA)


def _no_storage(tensor: Any, *_: Any) -> Any:
    kind = "BatchedTensorImpl" if is_batchedtensor(tensor) else "TensorWrapper"
    raise NotImplementedError(f"Cannot access storage of {kind}")


def _listed(tensor: Any) -> Any:
    level = tensor
    while is_functorch_wrapped_tensor(level):
        if is_batchedtensor(level):
            raise RuntimeError(_NO_DATA)
        level = get_unwrapped(level)
    with outside_of_transforms():
        return SimulatedTensor.tolist(unwrapped(tensor))
