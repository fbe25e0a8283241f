"""Replacements for composite operators that behave differently on fakes than on a CUDA device.

Composite operators are C++ code. They check that their inputs are on CUDA, which fakes deny, and
that they are not a subclass of Tensor, for which they avoid in-place operators. So each is replaced
for tensors with CUDA's dispatch keys; without CUDA, only fakes have these keys. Sources:
aten/src/ATen/native/{Linear,Dropout,SoftMax,TensorAdvancedIndexing}.cpp and
aten/src/ATen/native/transformers/attention.cpp of PyTorch 2.13.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._prims_common import suggest_memory_format
from torch.autograd import forward_ad
from torch.library import Library

from ...profiles import DeviceProfile
from .attention import questions
from .attention.sdpa import scaled_dot_product_attention
from .backward_formulas import WITH_FORMULAS, cumprod_backward
from .batch_norm import batch_norm
from .failed_decompositions import raise_if_failed
from .fast_encoder import encoder_layer, multi_head_attention
from .forward_formulas import ForwardFormulas, is_dual, of_duals
from .grids import grid_backward, sampled
from .losses import cross_entropy, ctc_loss
from .op_kinds import CUDA_KERNELS, in_autograd, in_cpp
from .packed_sequences import pack_padded_backward, pad_packed
from .recurrent_ops import recurrent_ops, weight_patches
from .shape_rules import SHAPES
from .solve_out import solve_into
from .transforms import is_transformed, unknown_inside
from .unknown_scratch import UnknownScratch
from .wrapper_composites import for_wrappers, on_host
from .zero_tensors import OF_ZEROS

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode

_aten = torch.ops.aten

#: Composites that work in place on a plain tensor, and the operators that they call instead on a
#: subclass. The output of these operators takes over the memory of the first argument.
_AVOIDED_OPS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (_aten.linear.default, (_aten.add.Tensor,)),
    (_aten.gather_backward.default, (_aten.scatter_add.default,)),
    (_aten.value_selecting_reduction_backward.default, (_aten.scatter.src,)),
    (_aten.index_select_backward.default, (_aten.index_add.default,)),
    (_aten.masked_select_backward.default, (_aten.masked_scatter.default,)),
    (_aten.trace_backward.default, (_aten.index_fill.int_Tensor,)),
    (_aten.isclose.default, (_aten.bitwise_and.Tensor,)),
)


class _Latest:
    ops: CompositeOps | None = None
    """The replacements that were registered last, which PyTorch calls; None if there are none."""


#: It belongs to the process, because PyTorch's registrations do.
_LATEST: Final = _Latest()


def _layer(src: Any, *_: Any, **__: Any) -> Any:
    return torch.empty_like(src)


def _attention_layer(
    query: Any, key: Any, value: Any, embed_dim: Any, num_heads: Any, *rest: Any, **named: Any
) -> Any:
    schema = _aten._native_multi_head_attention.default._schema.arguments
    given = dict(zip([argument.name for argument in schema[5:]], rest, strict=False)) | named
    out = torch.empty_like(query)
    if not given.get("need_weights", True):
        return out, None
    heads = () if given.get("average_attn_weights", True) else (num_heads,)
    return out, query.new_empty(query.shape[0], *heads, query.shape[1], key.shape[1])


#: Operators that PyTorch has no shape rule for: what runs them, and what makes the outputs of a
#: call that it does not know.
_ENCODERS: tuple[tuple[Any, Callable[..., Any], Callable[..., Any]], ...] = (
    (_aten._transformer_encoder_layer_fwd.default, encoder_layer, _layer),
    (_aten._native_multi_head_attention.default, multi_head_attention, _attention_layer),
)


#: Operators whose gradients work in another dtype, or free their steps elsewhere, on CUDA than on
#: fakes.
_UNKNOWN_GRADIENTS: tuple[Any, ...] = (
    *(_aten.renorm.default, _aten.linalg_cholesky_ex.default, _aten.linalg_lu_factor_ex.default),
)


class CompositeOps:
    """The composite operators of one fake mode, replaced while ``install`` is in force."""

    def __init__(self, profile: DeviceProfile, unknown: UnknownScratch) -> None:
        self._profile = profile
        self._unknown_scratch = unknown
        self._mark_unknown = unknown.mark
        self.fake_mode: SimulatedFakeMode
        self.forward_formulas = ForwardFormulas(unknown.mark, lambda: self.fake_mode)

    def replacements(self) -> Mapping[Any, Callable[..., Any]]:
        """Returns the replacements by operator."""
        table: dict[Any, Callable[..., Any]] = {
            _aten.dropout.default: _dropout,
            _aten.softmax.int: _softmax,
            _aten.log_softmax.int: _log_softmax,
            _aten.rms_norm.default: _rms_norm,
            _aten.one_hot.default: _one_hot,
            _aten.cross_entropy_loss.default: cross_entropy,
            _aten.ctc_loss.IntList: partial(ctc_loss, self._mark_unknown),
            _aten.batch_norm.default: partial(batch_norm, self._mark_unknown),
            _aten.cumprod_backward.default: self._cumprod_backward,
            _aten.scaled_dot_product_attention.default: partial(
                scaled_dot_product_attention, profile=self._profile
            ),
            _aten._fused_sdp_choice.default: partial(
                questions.number_of_backend, profile=self._profile
            ),
            _aten._linalg_check_errors.default: self._check_errors,
            _aten._linalg_solve_ex.result: partial(solve_into, self._unknown_scratch.explain),
            _aten.affine_grid_generator_backward.default: grid_backward,
            _aten.grid_sampler.default: sampled,
            **recurrent_ops(self._unknown_scratch),
            _aten._pack_padded_sequence_backward.default: pack_padded_backward,
            _aten._pad_packed_sequence.default: pad_packed,
            **{op: self._in_place(op, avoided) for op, avoided in _AVOIDED_OPS},
        }
        for op, run, outputs in _ENCODERS:
            table[op] = self._encoder(op, run, outputs)
        return table

    def patches(self) -> dict[tuple[Any, str], Callable[..., Any]]:
        """Returns patches of PyTorch's Python code, by owner and name."""
        return weight_patches(self._unknown_scratch)

    def install(self) -> Callable[[], None]:
        """Registers the replacements for CUDA fakes; returns what takes them away again.

        A session has some outside windows too; those of a window on another device take their
        place, and those of a window on the same device are there already.
        """
        before = _LATEST.ops
        if before is self:
            return lambda: None
        library = Library("aten", "IMPL")

        def put(op: str, run: Callable[..., Any], key: str) -> None:
            library.impl(op.removeprefix("aten::"), run, key, allow_override=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kernels that are overridden on purpose
            for op in _UNKNOWN_GRADIENTS:
                put(op.name(), self._without_gradients(op), "AutogradCUDA")
            for op, replacement in {**self.replacements(), **WITH_FORMULAS}.items():
                put(op.name(), replacement, "AutogradCUDA")
            for op, replacement in for_wrappers(self.replacements()).items():
                put(op.name(), replacement, "AutogradMeta")
            for op, replacement in on_host(self.replacements()).items():
                put(op.name(), replacement, "AutogradCPU")
            for op, of_zeros in OF_ZEROS.items():
                put(op.name(), of_zeros, "ZeroTensor")
            for op, shape in SHAPES.items():
                put(op.name(), shape, "Meta")
            for name in CUDA_KERNELS:
                if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
                    put(name, _launched, "CUDA")
        _LATEST.ops = self

        def remove() -> None:
            library._destroy()
            _LATEST.ops = before

        return remove

    def _in_place(self, op: Any, avoided: tuple[Any, ...]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if is_transformed() and op is not _aten.linear.default:
                self._mark_unknown(unknown_inside(op))
            if op is _aten.linear.default and is_dual(args):
                return self._linear_of_duals(*args, **kwargs)
            with self.fake_mode.in_place_of(avoided):
                return in_cpp(op, *args, **kwargs)

        return run

    def _linear_of_duals(self, input: Any, weight: Any, bias: Any = None) -> Any:
        """Runs a linear layer whose forward-mode formulas add too, but not in place."""
        rank = input.dim()
        if bias is not None and rank != 2 and not (rank == 3 and input.is_contiguous()):
            self._mark_unknown(of_duals(_aten.linear.default))
        return in_cpp(_aten.linear.default, input, weight, bias)

    def _unknown(self, op: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self._mark_unknown(str(op))
            return otherwise(*args, **kwargs)

        return run

    def _encoder(
        self, op: Any, known: Callable[..., Any], otherwise: Callable[..., Any]
    ) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            out = known(*args, **kwargs, profile=self._profile)
            return self._unknown(op, otherwise)(*args, **kwargs) if out is NotImplemented else out

        return run

    def _cumprod_backward(self, grad: Any, input: Any, dim: int, output: Any) -> Any:
        if input.is_complex() or torch.is_grad_enabled():
            self._mark_unknown("the backward of aten.cumprod.default")
            return in_cpp(_aten.cumprod_backward.default, grad, input, dim, output)
        return cumprod_backward(grad, input, dim, output)

    def _check_errors(self, *args: Any, **kwargs: Any) -> None:
        raise_if_failed(self.fake_mode.values, *args, **kwargs)

    def _without_gradients(self, op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            tensors = (arg for arg in args if isinstance(arg, torch.Tensor) and arg.numel())
            if forward_ad._current_level >= 0:
                self._mark_unknown(of_duals(op))
            elif torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
                self._mark_unknown(f"the backward of {op}")
            return in_autograd(op, *args, **kwargs)

        return run


def _dropout(input: Any, p: float, train: bool) -> Any:
    if train and 0 < p < 1 and input.numel() > 0:
        return _aten.native_dropout(input, p, train)[0]
    return in_cpp(_aten.dropout.default, input, p, train)


def _softmax(self: Any, dim: int, dtype: Any = None) -> Any:
    if self.dtype is torch.float16 and dtype is torch.float32:
        return _aten._softmax(self, dim, True)
    return _aten._softmax(self if dtype is None else self.to(dtype), dim, False)


def _log_softmax(self: Any, dim: int, dtype: Any = None) -> Any:
    if self.dtype is torch.float16 and dtype is torch.float32:
        return _aten._log_softmax(self, dim, True)
    return _aten._log_softmax(self if dtype is None else self.to(dtype), dim, False)


def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    composed = input.is_complex() or suggest_memory_format(input) is not torch.contiguous_format
    if composed or (weight is not None and weight.dtype != input.dtype):
        return in_cpp(_aten.rms_norm.default, input, normalized_shape, weight, eps)
    return _aten._fused_rms_norm(input, normalized_shape, weight, eps)[0]


def _one_hot(self: Any, num_classes: int = -1) -> Any:
    if not self.numel() and self.dtype is torch.int64:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return self.new_empty(*self.shape, num_classes)
    if num_classes < -1 or num_classes == 0 or self.dtype is not torch.int64:
        return in_cpp(_aten.one_hot.default, self, num_classes)
    if num_classes == -1:
        num_classes = int(self.max().item()) + 1
    made = self.new_zeros(*self.shape, num_classes)
    return made.scatter_(-1, self.unsqueeze(-1), 1)


def _launched(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("a kernel was launched on a simulated device")
