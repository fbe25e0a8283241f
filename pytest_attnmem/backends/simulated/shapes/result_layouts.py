"""The strides of new results with a dimension of one element or none, as CUDA chooses them.

Such a dimension may have any stride, so a tensor may be contiguous and in another order at once.
The kernels take it for contiguous; PyTorch's rules of sizes keep its strides. The rule of each
operator was found on the null device; most are recorded
(``tests/backends/simulated/one_element_programs.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch

from ....values.dispatcher import past_modes
from ..scratch.plan_parts import suggested_format
from ..scratch.strides import (
    NUMBER,
    Operand,
    contiguous_strides,
    dense_without_overlap,
    kept_strides,
    result_strides,
)


def operand(tensor: torch.Tensor) -> Operand:
    """Returns a tensor's shape and strides."""
    return Operand(tensor.shape, tensor.stride())


def of_lists(args: Sequence[Any], out: Any) -> Any:
    """Returns the results of an operator over lists of tensors.

    Where the tensors of each place have one layout, one kernel makes all results, which are like
    those of the first list; else each place has an operator of its own (ForeachUtils.h).
    """
    lists = [value for value in args if isinstance(value, (list, tuple))]
    lists = [value for value in lists if value and isinstance(value[0], torch.Tensor)]
    if not isinstance(out, list) or any(len(value) != len(out) for value in lists):
        return out
    places = [[operand(tensor) for tensor in place] for place in zip(*lists, strict=True)]
    if any(one.shape != operands[0].shape for one, operands in zip(out, places, strict=True)):
        return out  # norms, say
    alike = all(map(_are_alike, places))
    return [
        restrided(one, kept_strides(*operands[0]) if alike else result_strides(one.shape, operands))
        for one, operands in zip(out, places, strict=True)
    ]


def _are_alike(operands: Sequence[Operand]) -> bool:
    """Returns True for tensors without gaps whose strides differ at most where they are free."""
    steps = [
        [step for size, step in zip(*operand, strict=True) if size != 1] for operand in operands
    ]
    same = len({operand.shape for operand in operands}) == 1 and len({*map(tuple, steps)}) == 1
    return same and all(dense_without_overlap(*operand) for operand in operands)


def restrided(out: Any, strides: tuple[int, ...] | None) -> Any:
    """Returns a result without data with other strides."""
    if strides is None or strides == out.stride() or out.is_conj() or out.is_neg():
        return out
    return torch.empty_strided(out.shape, strides, dtype=out.dtype, device="meta")


_aten = torch.ops.aten

_Shape = tuple[int, ...]
_Rule = Callable[[Any, tuple[Any, ...], _Shape], _Shape | None]
"""Returns the strides of a result by operator, arguments and shape; None for those that it has."""


def _operands(func: Any, args: tuple[Any, ...]) -> list[Operand]:
    """Returns the operands; a number in the place of a tensor is one of them."""
    found = []
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if isinstance(value, torch.Tensor):
            found.append(operand(value))
        elif isinstance(argument.type, torch.TensorType) and value is not None:
            found.append(NUMBER)
    return found


def _pointwise(func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape:
    return result_strides(shape, _operands(func, args))


def _with_number(func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape:
    return result_strides(shape, [*_operands(func, args), NUMBER])


def _second_leads(func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape:
    first, second, *others = _operands(func, args)
    return result_strides(shape, [second, first, *others])


def _like_first(_func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape | None:
    first = args[0]
    return kept_strides(shape, first.stride()) if first.shape == shape else None


def _suggested(_func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape:
    """Returns the strides of an image in the format that the first tensor's strides suggest."""
    layout = suggested_format(args[0])
    return torch.empty(shape, device="meta", memory_format=layout).stride()


def _contiguous(_func: Any, _args: tuple[Any, ...], shape: _Shape) -> _Shape:
    return contiguous_strides(shape)


def _angle(func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape:
    """Returns the strides of the real part of a complex result, which is copied."""
    rule = _contiguous if args[0].is_complex() else _pointwise
    return rule(func, args, shape)


def _of_copy(func: Any, args: tuple[Any, ...], shape: _Shape) -> _Shape | None:
    """Returns the strides of a copy of the first argument, which is then written."""
    return _like_first(func, args, shape)


def _overloads(*packets: Any) -> list[Any]:
    return [getattr(packet, name) for packet in packets for name in packet.overloads()]


#: Rules of operators that are not tagged ``pointwise``, or are not what their tag says.
_RULES: Final[Mapping[Any, _Rule]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(_aten.hardswish.default, _aten.hardswish_backward.default),
                *(_aten.hardtanh_backward.default, _aten.softplus_backward.default),
                *(_aten.elu_backward.default, _aten.hardsigmoid_backward.default),
                *(_aten.softshrink_backward.default, _aten.hardshrink_backward.default),
                *(_aten.mish_backward.default, _aten._prelu_kernel_backward.default),
                *(_aten.mse_loss.default, _aten.smooth_l1_loss.default),
                *(_aten.complex.default, _aten.polar.default, _aten.floor_divide.default),
                *(_aten.lerp.Scalar, _aten.pow.Tensor_Scalar, _aten.float_power.Tensor_Scalar),
            ),
            _pointwise,
        ),
        **dict.fromkeys(
            (
                *(_aten.threshold_backward.default, _aten.leaky_relu_backward.default),
                _aten.rsub.Tensor,
            ),
            _second_leads,
        ),
        _aten.angle.default: _angle,
        **dict.fromkeys(_overloads(_aten.index_fill), _of_copy),
        **dict.fromkeys(
            (
                *_overloads(_aten.empty_like, _aten.full_like, _aten.zeros_like, _aten.ones_like),
                *_overloads(_aten.rand_like, _aten.randn_like, _aten.randint_like),
                *(_aten.clone.default, _aten._to_copy.default, _aten.flip.default),
                *(_aten.hardtanh.default, _aten.nan_to_num.default, _aten.conj_physical.default),
                *(_aten.deg2rad.default, _aten.rad2deg.default, _aten.frexp.Tensor),
                *(_aten.sort.default, _aten.sort.stable, _aten._prelu_kernel.default),
                *(_aten.huber_loss.default, _aten.binary_cross_entropy.default),
                *(_aten.log_sigmoid_forward.default, _aten.log_sigmoid_backward.default),
                *(_aten.native_dropout.default, _aten.native_batch_norm.default),
                _aten.index_put.default,
            ),
            _like_first,
        ),
        **dict.fromkeys(
            (
                _aten.native_dropout_backward.default,
                *_overloads(_aten.upsample_nearest2d, _aten._upsample_nearest_exact2d),
                *_overloads(_aten.upsample_bilinear2d, _aten.upsample_bicubic2d),
                _aten.upsample_trilinear3d.default,
            ),
            _suggested,
        ),
        **dict.fromkeys(
            (
                *(_aten.pow.Scalar, _aten.tril.default, _aten.triu.default),
                *(_aten.native_channel_shuffle.default, _aten.pixel_unshuffle.default),
                *(_aten._log_softmax.default, _aten._softmax.default),
                *(_aten.native_layer_norm.default, _aten._fused_rms_norm.default),
                *(_aten.native_group_norm.default, _aten.native_group_norm_backward.default),
                *(_aten.glu_backward.default, _aten.linalg_vector_norm.default),
                *(_aten.index_add.default, _aten.index_copy.default, _aten.renorm.default),
                *(_aten.rrelu_with_noise.default, _aten.bernoulli.default, _aten.bernoulli.p),
                *_overloads(_aten.masked_fill),
                _aten.normal.Tensor_float,
            ),
            _contiguous,
        ),
    }
)


#: Rules for tensors without a dimension of one element too: PyTorch's own give other strides.
_ALWAYS: Final = frozenset({_contiguous, _angle, _of_copy})
_BY_A_NUMBER: Final = frozenset({_aten.deg2rad.default, _aten.rad2deg.default})


def _rule(func: Any) -> _Rule | None:
    found = _RULES.get(func)
    if found is None and torch.Tag.pointwise in func.tags:
        return _with_number if "scalar" in func._overloadname.lower() else _pointwise
    return found


def settle_target(func: Any, args: Sequence[Any], target: Any, before: Any) -> None:
    """Gives a target that an operator resized, of another shape ``before``, its strides."""
    if not isinstance(target, torch.Tensor) or target.shape == before or _are_symbolic((target,)):
        return
    rule = _rule_of_target(func)
    strides = rule and rule(func, tuple(args), tuple(target.shape))
    if strides and strides != target.stride():
        with past_modes():
            target.as_strided_(target.shape, strides, target.storage_offset())


def _rule_of_target(func: Any) -> _Rule | None:
    """Returns the rule of ``name.Tensor_out`` from that of ``name.Tensor``.

    Operators that fill a tensor like their first argument fill a target over all operands.
    """
    name = func._overloadname.removesuffix("out").removesuffix("_") or "default"
    result = getattr(func.overloadpacket, name, None)
    if result in _BY_A_NUMBER:
        return _with_number
    rule = _RULES.get(result) or _rule(func) or (result and _rule(result))
    return _pointwise if rule is _like_first else rule


def laid_out(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Any:
    """Returns tensors without data with the strides that CUDA's kernels give them."""
    args = tuple(args)
    if func.is_view or func._schema.is_mutable:
        return out
    rule, tensors = _rule(func), [*_tensors((out, *args))]
    if _are_symbolic(tensors) or not (rule in _ALWAYS or _have_free_strides(tensors)):
        return out
    if func._schema.name.startswith("aten::_foreach_"):
        return of_lists(args, out)
    if rule is None or kwargs.get("memory_format") not in (None, torch.preserve_format):
        return out

    def settled(one: Any) -> Any:
        if type(one) is not torch.Tensor or not one.dim() or any(one is arg for arg in args):
            return one
        return restrided(one, rule(func, args, tuple(one.shape)))

    return tuple(map(settled, out)) if isinstance(out, tuple) else settled(out)


def _have_free_strides(tensors: Sequence[Any]) -> bool:
    """Returns True if a tensor has a dimension of one element or none."""
    return any(0 in tensor.shape or 1 in tensor.shape for tensor in tensors)


def _are_symbolic(tensors: Sequence[Any]) -> bool:
    return any(type(size) is not int for tensor in tensors for size in tensor.shape)


def _tensors(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yields the tensors among values and in their lists, as deep as an operator's may be."""
    for value in values:
        inner = value if isinstance(value, (list, tuple)) else (value,)
        yield from (one for one in inner if type(one) is torch.Tensor)
