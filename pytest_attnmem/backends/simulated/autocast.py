"""``autocast("cuda")`` for fakes, which autocast's C++ kernels do not see on a CUDA device.

The policies are those of aten/src/ATen/autocast_mode.h of PyTorch 2.13; the dispatcher lists the
operators that have one.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library

#: AT_FORALL_LOWER_PRECISION_FP
_LOWER_PRECISION = frozenset(
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
#: AT_FORALL_FP32_SET_OPT_DTYPE, and the operators whose calls get a dtype argument
_FP32_DTYPE_ARGUMENT = frozenset(
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
_PROMOTE = frozenset(
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
#: Raises an error under autocast.
_BANNED = "binary_cross_entropy"

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


class Autocast:
    """The casts of ``autocast("cuda")``, done from ``follow`` to ``restore``.

    The kernels are replaced when a program first enables autocast, because that takes milliseconds.
    """

    def __init__(self) -> None:
        self._casts: dict[int, tuple[weakref.ref[Any], torch.Tensor]] = {}
        self._library: Library | None = None
        names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
        self._replaced = [
            name.removeprefix("aten::")
            for name in names
            if name.startswith("aten::") and name != f"aten::{_BANNED}"
        ]

    def follow(self) -> None:
        """Replaces autocast's kernels for fakes if autocast is enabled."""
        if self._library is None and torch.is_autocast_enabled("cuda"):
            self._library = self._install()

    def patches(self) -> dict[tuple[Any, str], Callable[..., None]]:
        """Returns the patches that follow a program's autocast, by owner and name."""
        clear = torch.clear_autocast_cache

        def clear_both() -> None:
            clear()
            self.clear()

        return {
            (torch, "set_autocast_enabled"): self._following(torch.set_autocast_enabled),
            (torch._C, "set_autocast_enabled"): self._following(torch._C.set_autocast_enabled),
            (torch, "clear_autocast_cache"): clear_both,
        }

    def _following(self, set_enabled: Callable[..., None]) -> Callable[..., None]:
        """Returns the function that enables autocast, followed by ``follow``."""

        def run(*args: Any, **kwargs: Any) -> None:
            set_enabled(*args, **kwargs)
            self.follow()

        return run

    def restore(self) -> None:
        """Restores autocast's kernels and drops the cached casts."""
        self.clear()
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _install(self) -> Library:
        library = Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kernels that are overridden on purpose
            for name in self._replaced:
                library.impl(name, self._kernel(name), "AutocastCUDA")
        return library

    def clear(self) -> None:
        """Drops the cached casts of weights, as the end of an outermost autocast does."""
        self._casts.clear()

    def _kernel(self, name: str) -> Callable[..., Any]:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        prepare: Callable[[Any, Any, Any], Any]
        if name in _LOWER_PRECISION:
            prepare = self._to_lower_precision
        elif name in _FP32_DTYPE_ARGUMENT:
            prepare = _with_fp32_dtype
        elif name in _PROMOTE:
            prepare = self._to_widest
        else:
            prepare = self._to_fp32

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_KEYS):
                args, kwargs = prepare(op, args, kwargs)
                return op(*args, **kwargs)

        return run

    def _to_lower_precision(self, _: Any, args: Any, kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("cuda")
        return _map_tensors(lambda tensor: self._cast(tensor, dtype), args, kwargs)

    def _to_fp32(self, _: Any, args: Any, kwargs: Any) -> Any:
        return _map_tensors(lambda tensor: self._cast(tensor, torch.float32), args, kwargs)

    def _to_widest(self, _: Any, args: Any, kwargs: Any) -> Any:
        found: list[torch.dtype] = []
        _map_tensors(lambda tensor: found.append(tensor.dtype), args, kwargs)
        low = torch.get_autocast_dtype("cuda")
        dtype = torch.float32 if torch.float32 in found else low
        return _map_tensors(lambda tensor: self._cast(tensor, dtype), args, kwargs)

    def _cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the tensor in another dtype: ``cached_cast`` of ATen/autocast_mode.cpp."""
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
            if torch.is_inference_mode_enabled():  # its tensors cannot be saved for backward
                return tensor.to(dtype)
            with torch.enable_grad():  # later calls may need the gradient
                cast = tensor.to(dtype)
            self._casts[id(tensor)] = (weakref.ref(tensor), cast)
        return cast


def _with_fp32_dtype(op: Any, args: Any, kwargs: Any) -> Any:
    first = args[0] if args else None
    names = [argument.name for argument in op._schema.arguments]
    position = names.index("dtype")
    given = args[position] if len(args) > position else kwargs.get("dtype")
    if given is None and _is_eligible(first):
        if len(args) > position:
            args = (*args[:position], torch.float32, *args[position + 1 :])
        else:
            kwargs = {**kwargs, "dtype": torch.float32}
    return args, kwargs


def _is_eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_cuda
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _map_tensors(change: Callable[[Any], Any], args: Any, kwargs: Any) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([one(item) for item in value])
        return change(value) if _is_eligible(value) else value

    # In PyTorch's builds, C++ evaluates the arguments of a call from last to first.
    named = {name: one(kwargs[name]) for name in reversed(kwargs)}
    return tuple([one(value) for value in reversed(args)][::-1]), named
