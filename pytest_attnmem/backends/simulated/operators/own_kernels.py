"""The kernels of single operators: those that read values, and those that C++ code takes apart.

Every other operator runs as ``operators.py`` runs all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

import torch

from ....profiles import DeviceProfile
from ....values.dispatcher import has_kernel
from ..attention.sdpa import Attention, number_of_backend, scaled_dot_product_attention
from ..convolution.cudnn_choices import (
    BY_CUDNN,
    batch_norm,
    is_for_cudnn,
    mapped_batch_norm,
    sampled,
    without_cudnn,
)
from ..memory.storages import DeviceStorage
from ..pytorch_device.kernels import Run, below, in_cpp, layers
from .composed_ops import COMPOSED
from .fast_encoder import encoder_layer, multi_head_attention
from .op_rules import RULES
from .operators import Operators

_aten = torch.ops.aten
#: The recurrent networks of RNN.cpp.
_NETWORKS: Final = tuple(
    getattr(getattr(_aten, name), overload)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for overload in ("input", "data")
)
_META: Final = torch.DispatchKey.Meta
_CPU: Final = torch.DispatchKey.CPU
_ATTENTION: Final = _aten.scaled_dot_product_attention.default

#: The kernels that are the same on all devices.
_EXPLICIT: Final = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
#: Operators whose parts matter: a copy may come from the host, and some results are views.
_BY_PARTS: Final = frozenset(
    {
        *(_aten._to_copy.default, _aten.copy.default, _aten._unsafe_view.default),
        *(_aten.unsafe_split.Tensor, _aten.unsafe_split_with_sizes.default),
        _aten._unsafe_index.Tensor,
    }
)
#: Views that the file of PyTorch's functions does not call so, or that have one kernel for all.
_VIEWS: Final = (_aten.as_strided.default, _aten.view.default, _aten._reshape_alias.default)
#: Operators that give a tensor another storage: they read and write no element.
_PLACING: Final = (
    *(_aten.set_.source_Storage_storage_offset, _aten.set_.source_Storage),
    _aten.set_.source_Tensor,
)
#: Operators that make a nested tensor of the strided layout. Autograd asks one for its sizes where
#: an error ends the process (torch/csrc/autograd/input_metadata.cpp), so that none may be made.
_NESTING: Final = (
    *(_aten._nested_tensor_from_tensor_list.default, _aten._nested_tensor_from_mask.default),
    *(_aten._nested_from_padded.default, _aten._nested_view_from_buffer.default),
)


def own_kernels(operators: Operators) -> Mapping[Any, Run]:
    """Returns the kernels by operator."""
    run = operators.run
    return {
        **{op: partial(run, op) for op in planned_whole()},
        **{op: _composed(op, run, function) for op, function in COMPOSED.items()},
        **{op: below(op, _META) for op in _VIEWS},
        **{op: below(op, _CPU) for op in _PLACING},
        **{op: partial(operators.refuse_layout, "nested", op) for op in _NESTING},
        **{
            op: _composed(op, run, partial(_of_profile, operators, function))
            for op, function in (
                (_aten._transformer_encoder_layer_fwd.default, encoder_layer),
                (_aten._native_multi_head_attention.default, multi_head_attention),
            )
        },
        **{
            op: partial(run, op)
            for op in (
                *(_aten.convolution.default, _aten.convolution_backward.default),
                # C++ code chooses the kernels of these by the device, without the dispatcher.
                _aten.ldexp.Tensor,
                *(_aten.mode.values, _aten.kaiser_window.default),
                *(_aten.kaiser_window.periodic, _aten.kaiser_window.beta),
            )
        },
        _aten.copy_.default: partial(_copy, operators),
        _aten._local_scalar_dense.default: partial(_number, operators),
        _aten.equal.default: _equal,
        _aten.set_.default: partial(_let_go, operators),
        _aten._efficientzerotensor.default: partial(_zeros_without_memory, operators),
        **{
            op: partial(_inner_product, operators, op)
            for op in (_aten.dot.default, _aten.vdot.default)
        },
        _aten.is_set_to.default: _is_set_to,
        _aten._safe_softmax.default: partial(_safe_softmax, operators),
        **{
            getattr(packet, overload): lambda *_: False
            for packet in (_aten._use_cudnn_ctc_loss, _aten._use_miopen_ctc_loss)
            for overload in packet.overloads()
        },
    }  # fmt: skip


def planned_whole() -> Iterator[Any]:
    """Yields the operators that C++ code composes below autograd, and that a rule plans as one."""
    for name in RULES:
        namespace, packet, *overloads = name.split(".")
        found = getattr(getattr(torch.ops, namespace), packet, None)
        for overload in overloads or (() if found is None else found.overloads()):
            op = getattr(found, overload, None)
            if op is not None and _is_composed_below(op):
                yield op


def _is_composed_below(op: Any) -> bool:
    """Returns True for an operator of new tensors that has one kernel for all devices."""
    schema = op._schema
    if any(argument.alias_info is not None for argument in schema.arguments) or op in _BY_PARTS:
        return False
    makes = bool(schema.returns) and all("Tensor" in str(one.type) for one in schema.returns)
    return makes and any(has_kernel(op.name(), key) for key in _EXPLICIT)


def composites(operators: Operators) -> Mapping[Any, Run]:
    """Returns what stands for composites that choose by the device, by operator."""
    return {
        _aten.scaled_dot_product_attention.default: partial(
            _attended, operators, scaled_dot_product_attention
        ),
        _aten._fused_sdp_choice.default: partial(_attended, operators, number_of_backend),
        _aten.batch_norm.default: lambda *args: batch_norm(operators.current.mark_unknown, *args),
        _aten.grid_sampler.default: sampled,
        **{op: partial(_network, operators, op) for op in _NETWORKS},
    }


def _safe_softmax(operators: Operators, *args: Any) -> Any:
    """Runs the softmax of attention, which C++ code chose for ``vmap`` without the device."""
    if not operators.attentions:
        operators.current.mark_unknown(f"{_ATTENTION} under torch.func")
    return operators.run(_aten._safe_softmax.default, *args)


def under_vmap(operators: Operators) -> Mapping[Any, Run]:
    """Returns what runs composites under ``vmap`` that choose by the device, by operator."""
    return {
        _aten.batch_norm.default: lambda *args: mapped_batch_norm(
            operators.current.mark_unknown, *args
        ),
    }


def decomposed_under_vmap(operators: Operators) -> Mapping[Any, Run]:
    """Returns what runs composites that ``vmap`` takes apart, by operator."""
    return {_ATTENTION: partial(_attended_in_batches, operators)}


def _attended_in_batches(operators: Operators, query: Any, *rest: Any, **options: Any) -> Any:
    """Attends to each element; with a mask, or with gradients, nobody has compared it."""
    if not operators.maker.is_here(query):
        return in_cpp(_ATTENTION, query, *rest, **options)
    mask = rest[2] if len(rest) > 2 else options.get("attn_mask")
    if mask is not None or any(map(_needs_gradient, (query, *rest[:2]))):
        operators.current.mark_unknown(f"{_ATTENTION} under torch.func")
    return _attended(operators, scaled_dot_product_attention, query, *rest, **options)


def _needs_gradient(tensor: torch.Tensor) -> bool:
    """Returns True if a transform below, or autograd, needs the gradient of a wrapped tensor."""
    return any(layer.requires_grad for layer in layers(tensor))


def _network(operators: Operators, op: Any, x: Any, *rest: Any) -> Any:
    """Runs a recurrent network by PyTorch's own cells, though cuDNN would on a device."""
    if is_for_cudnn(x):
        operators.current.explain_unknown(BY_CUDNN)
    return without_cudnn(op, x, *rest)


def _of_profile(operators: Operators, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    return function(*args, **kw, profile=operators.current.profile)


def _attended(
    operators: Operators,
    function: Callable[[Attention, DeviceProfile], Any],
    *args: Any,
    **options: Any,
) -> Any:
    operators.attentions += 1
    try:
        return function(Attention(*args, **options), operators.current.profile)
    finally:
        operators.attentions -= 1


def _composed(op: Any, run: Run, function: Callable[..., Any]) -> Run:
    """Returns a kernel that calls others; a call that it does not take runs as one operator."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        return run(op, *args, **kwargs) if out is NotImplemented else out

    return kernel


def _copy(operators: Operators, to: Any, source: Any, non_blocking: bool = False) -> Any:
    """Copies to the device, or on it; a tensor of the host gets the values."""
    if operators.maker.is_here(to):
        stored = operators.maker.stored_in(to)
        if isinstance(stored, DeviceStorage) and stored.op is _aten.empty_strided.default:
            stored.op = _aten._to_copy.default  # which C++ code takes apart
        return operators.run(_aten.copy_.default, to, source, non_blocking)
    if to.numel():
        operators.use_scratch(_aten.copy_.default, to, source, non_blocking)
        to.copy_(operators.current.read(source))
    return to


def _number(operators: Operators, tensor: torch.Tensor) -> Any:
    return operators.current.read(tensor).item()


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compares as CUDA's kernel does; tensors of two shapes differ, whatever is in them."""
    if one.shape != other.shape:
        return False
    return not one.numel() or bool(torch.eq(one, other).all().item())


def _let_go(operators: Operators, tensor: torch.Tensor) -> Any:
    """Gives a tensor a storage without bytes."""
    empty = operators.maker.ghost((0,), (1,), tensor.dtype)
    return below(_aten.set_.source_Tensor, _CPU)(tensor, empty)


def _zeros_without_memory(operators: Operators, size: Any, **options: Any) -> torch.Tensor:
    """Returns autograd's zeros; the CPU's kernel makes them, and gives them the keys of the CPU."""
    device = operators.maker.device
    made = below(_aten._efficientzerotensor.default, _CPU)(size, **{**options, "device": device})
    return torch.Tensor._make_subclass(torch.Tensor, made, device_for_backend_keys=device)


def _inner_product(
    operators: Operators, op: Any, one: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """Returns zeros without memory for such zeros, as ATen/native/cuda/Blas.cpp does."""
    if one._is_zerotensor() or other._is_zerotensor():
        return _zeros_without_memory(operators, (), dtype=one.dtype)
    return cast("torch.Tensor", operators.run(op, one, other))


def _is_set_to(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns True if both tensors have the same elements of the same storage."""
    places = [(each.storage_offset(), each.shape, each.stride()) for each in (one, other)]
    if places[0] != places[1]:
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
