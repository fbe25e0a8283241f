"""Calls inside transforms of ``torch.func``, where C++ code takes other paths than the simulation.

It composes an operator of wrapped tensors before the simulated device can replace it, and works in
place on none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import Any

import torch
from torch._functorch import eager_transforms, vmap
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from ...errors import CannotSimulate
from ...torch_releases import minor_version


def is_transformed() -> bool:
    """Returns True inside a transform, ``vmap`` or ``grad`` or another."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def outside_of_transforms() -> AbstractContextManager[Any]:
    """Runs its body outside of the transforms that run: its tensors are wrapped by none."""
    return temporarily_clear_interpreter_stack() if is_transformed() else nullcontext()


def unwrapped(tensor: Any) -> Any:
    """Returns the tensor that the levels of transforms wrap; another tensor as it is."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def has_plain_formulas() -> bool:
    """Returns True where a device would run autograd's formulas for plain tensors."""
    return torch.is_grad_enabled() and not is_transformed()


def unknown_inside(op: Any) -> str:
    """Returns the name of an operator without a model inside a transform."""
    return f"{op} under torch.func"


def is_batch() -> bool:
    """Returns True if the innermost transform is ``vmap``."""
    transform = torch._C._functorch.peek_interpreter_stack()
    return transform is not None and transform.key() == torch._C._functorch.TransformType.Vmap


def composites(
    mark_unknown: Callable[[str], None], attention: Callable[[], Any]
) -> Mapping[Any, Callable[..., Any]]:
    """Returns functions, by what they replace, that are unknown inside a transform.

    Their code asks there if a tensor is on CUDA, or makes a tensor of numbers. Attention in a batch
    runs by the function that ``attention`` returns, which selects the backend of a device.
    """

    def run(function: Any, op: str, *args: Any, **kwargs: Any) -> Any:
        if not is_transformed():
            return function(*args, **kwargs)
        mark_unknown(unknown_inside(op))
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if _CAPTURED not in str(error):
                raise
            text = f"no model of {unknown_inside(op)}; use backend='null' or 'cuda'"
            raise CannotSimulate(text) from None

    def drop(function: Any, *args: Any, **kwargs: Any) -> Any:
        p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        trains = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
        if is_transformed() and p and trains:  # else it returns its input
            mark_unknown(unknown_inside(_DROPOUT))
        return function(*args, **kwargs)

    def attend(*args: Any, **kwargs: Any) -> Any:
        given = _ATTENTION.bind(*args, **kwargs).arguments
        if is_transformed() and given["dropout_p"] and given.get("training", True):
            mark_unknown(unknown_inside(_DROPOUT))
        if is_batch() and not given.get("need_weights", True):
            mark_unknown(unknown_inside(str(_SCALED_ATTENTION)))
        return _attend(*args, **kwargs)

    def attend_scaled(*args: Any, **kwargs: Any) -> Any:
        if not is_batch():
            return _attend_scaled(*args, **kwargs)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        fused = bool(tensors) and tensors[0].dim() in (3, 4)
        masked = len(tensors) > 3 and (_BEFORE_2_15 or tensors[0].itemsize < 4)
        trained = _BEFORE_2_15 and any(map(_has_history, tensors))
        if masked or trained or not (fused or torch.backends.cuda.math_sdp_enabled()):
            mark_unknown(unknown_inside(str(_SCALED_ATTENTION)))
        return (attention() if fused else _attend_scaled)(*args, **kwargs)

    found = {function: partial(run, function, op) for function, op in _COMPOSITES.items()}
    found.update({function: partial(drop, function) for function in _DROPOUTS})
    return {**found, _attend: attend, _attend_scaled: attend_scaled}


def of_tensors_from_outside(
    as_fakes: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> dict[tuple[Any, str], Any]:
    """Returns the patches, by owner and name, that make fakes of what transforms wrap."""
    in_grad: Any = vars(eager_transforms)["_wrap_for_grad"]
    in_batch: Any = vars(vmap)["_add_batch_dim"]

    def wrap_for_grad(tensor: Any, level: int) -> Any:
        return in_grad(as_fakes((tensor,))[0], level)

    def add_batch_dim(tensor: Any, dim: int, level: int) -> Any:
        return in_batch(as_fakes((tensor,))[0], dim, level)

    return {
        (eager_transforms, "_wrap_for_grad"): wrap_for_grad,
        (vmap, "_add_batch_dim"): add_batch_dim,
    }


def untraceable(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patch that refuses ``torch.func.linearize``, which records a graph and runs it.

    What records it does not know simulated tensors.
    """

    def record(*_: Any, **__: Any) -> Any:
        raise refused(
            "torch.func.linearize cannot be simulated; use torch.func.jvp, or backend='null'"
        )

    return {(eager_transforms, "lazy_dynamo_disallow"): record}


def _has_history(tensor: Any) -> bool:
    """Returns True if a tensor, or one that it wraps, requires a gradient."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        if tensor.requires_grad:
            return True
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return bool(tensor.requires_grad)


_BEFORE_2_15 = minor_version(torch.__version__) < (2, 15)
_CAPTURED = "that would mutate a captured Tensor"  # said of a tensor of numbers before 2.15
_DROPOUT = "aten.dropout.default"
_DROPOUTS = (torch.dropout, torch.nn.functional.dropout)
_COMPOSITES = MappingProxyType(
    {
        torch.nn.functional.batch_norm: "aten.batch_norm.default",
        torch.nn.functional.instance_norm: "aten.instance_norm.default",
        torch.unravel_index: "torch.unravel_index",
    }
)
_SCALED_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_attend_scaled = torch.nn.functional.scaled_dot_product_attention
_attend = torch.nn.functional.multi_head_attention_forward
_ATTENTION = signature(_attend)
