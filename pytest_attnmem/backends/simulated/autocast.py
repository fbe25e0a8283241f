"""``autocast("cuda")`` for fakes, whose C++ kernels do not take them to be on a CUDA device.

The policies are those of aten/src/ATen/autocast_mode.h of PyTorch 2.13; which operators have one
is asked of the dispatcher.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library

#: AT_FORALL_LOWER_PRECISION_FP
_LOWER = frozenset(
    [
        "_convolution",
        "_convolution.deprecated",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_tbc",
        "conv_transpose1d",
        "conv_transpose2d.input",
        "conv_transpose3d.input",
        "convolution",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "prelu",
        "addmm",
        "addmv",
        "addr",
        "matmul",
        "einsum",
        "mm",
        "mv",
        "linalg_vecdot",
        "linear",
        "addbmm",
        "baddbmm",
        "bmm",
        "chain_matmul",
        "linalg_multi_dot",
        "_thnn_fused_lstm_cell",
        "_thnn_fused_gru_cell",
        "lstm_cell",
        "gru_cell",
        "rnn_tanh_cell",
        "rnn_relu_cell",
        "_scaled_dot_product_flash_attention",
        "scaled_dot_product_attention",
    ]
)
#: AT_FORALL_FP32_SET_OPT_DTYPE, and those where a dtype is added to the call
_WIDE_RESULT = frozenset(
    [
        "prod",
        "prod.dim_int",
        "softmax.int",
        "log_softmax.int",
        "cumprod",
        "cumsum",
        "linalg_vector_norm",
        "linalg_matrix_norm",
        "linalg_matrix_norm.str_ord",
        "sum",
        "sum.dim_IntList",
    ]
)
#: AT_FORALL_PROMOTE
_PROMOTED = frozenset(
    [
        "addcdiv",
        "addcmul",
        "atan2",
        "bilinear",
        "cross",
        "dot",
        "grid_sampler",
        "index_put",
        "scatter_add",
        "tensordot",
        "vdot",
    ]
)
#: Refuses to run.
_BANNED = "binary_cross_entropy"

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


class Autocast:
    """Casts as a CUDA device would, while ``install`` holds."""

    def __init__(self) -> None:
        self._casts: dict[int, tuple[weakref.ref[Any], torch.Tensor]] = {}

    def install(self) -> Library:
        """Replace the kernels for fakes, until the library is destroyed."""
        library = Library("aten", "IMPL")
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are overridden is what is wanted
            for full in registered:
                name = full.removeprefix("aten::")
                if full != name and name != _BANNED:
                    library.impl(name, self._kernel(name), "AutocastCUDA")
        return library

    def clear(self) -> None:
        """Forget the casts of weights, as the end of an outermost autocast does."""
        self._casts.clear()

    def _kernel(self, name: str) -> Callable[..., Any]:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        prepare: Callable[[Any, Any, Any], Any]
        if name in _LOWER:
            prepare = self._lowered
        elif name in _WIDE_RESULT:
            prepare = _with_wide_result
        elif name in _PROMOTED:
            prepare = self._promoted
        else:
            prepare = self._widened

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_KEYS):
                args, kwargs = prepare(op, args, kwargs)
                return op(*args, **kwargs)

        return run

    def _lowered(self, _: Any, args: Any, kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("cuda")
        return _mapped(lambda tensor: self._cast(tensor, dtype), args, kwargs)

    def _widened(self, _: Any, args: Any, kwargs: Any) -> Any:
        return _mapped(lambda tensor: self._cast(tensor, torch.float32), args, kwargs)

    def _promoted(self, _: Any, args: Any, kwargs: Any) -> Any:
        found: list[torch.dtype] = []
        _mapped(lambda tensor: found.append(tensor.dtype), args, kwargs)
        low = torch.get_autocast_dtype("cuda")
        dtype = torch.float32 if torch.float32 in found else low
        return _mapped(lambda tensor: self._cast(tensor, dtype), args, kwargs)

    def _cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if tensor.dtype == dtype:
            return tensor
        weight = (
            tensor.dtype is torch.float32
            and tensor.requires_grad
            and tensor.is_leaf
            and not tensor._is_view()
            and dtype is not torch.float32
            and torch.is_autocast_cache_enabled()
        )
        if not weight:
            return tensor.to(dtype)
        source, cast = self._casts.get(id(tensor), (None, None))
        if cast is None or source is None or source() is not tensor:
            cast = tensor.to(dtype)
            self._casts[id(tensor)] = (weakref.ref(tensor), cast)
        return cast


def _with_wide_result(op: Any, args: Any, kwargs: Any) -> Any:
    first = args[0] if args else None
    names = [argument.name for argument in op._schema.arguments]
    place = names.index("dtype")
    given = args[place] if len(args) > place else kwargs.get("dtype")
    if given is None and _eligible(first):
        if len(args) > place:
            args = (*args[:place], torch.float32, *args[place + 1 :])
        else:
            kwargs = {**kwargs, "dtype": torch.float32}
    return args, kwargs


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_cuda
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _mapped(change: Callable[[Any], Any], args: Any, kwargs: Any) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([one(item) for item in value])
        return change(value) if _eligible(value) else value

    # The compiler that PyTorch is built with evaluates the arguments of a call from the last on.
    named = {name: one(kwargs[name]) for name in reversed(kwargs)}
    return tuple([one(value) for value in reversed(args)][::-1]), named
