"""Checks of CUDA's operators that their operands have the same dtype, or one that they take.

The texts are those of aten/src/ATen/native: LinearAlgebra.cpp, Blas.cpp and LossNLL.cpp, Lerp.cpp,
layer_norm.cpp, mixed_data_type.h, TensorAdvancedIndexing.cpp, cuda/Blas.cpp and
cuda/IndexKernel.cpp; of TensorIterator.cpp and TensorUtils.cpp in aten/src/ATen; and of the code
that reads the data of a tensor of another dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from .names import FLOAT8, NAMES, UNSIGNED, kernel_text

_aten = torch.ops.aten
_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_MASKS: Final = (torch.bool, torch.uint8)
#: The dtypes whose tensors have a type of their own in errors.
_LEGACY: Final = ("Half", "Float", "Double", "Byte", "Char", "Short")
#: The names of dtypes in C++, which some errors have.
_IN_CPP: Final = MappingProxyType(
    {
        torch.bool: "bool",
        torch.uint8: "unsigned char",
        torch.int8: "signed char",
        torch.int16: "short",
        torch.int32: "int",
        torch.int64: "long int",
        torch.float16: "c10::Half",
        torch.bfloat16: "c10::BFloat16",
        torch.float32: "float",
        torch.float64: "double",
        torch.complex64: "c10::complex<float>",
        torch.complex128: "c10::complex<double>",
    }
)


def _differ(*tensors: Any) -> bool:
    return len({tensor.dtype for tensor in tensors}) > 1


def _names(*tensors: Any) -> list[str]:
    return [NAMES.get(tensor.dtype, str(tensor.dtype)) for tensor in tensors]


def _in_cpp(*tensors: Any) -> list[str]:
    return [_IN_CPP.get(tensor.dtype, str(tensor.dtype)) for tensor in tensors]


def _mm(first: Any, second: Any, *_: Any, **__: Any) -> str:
    if not _differ(first, second):
        return ""
    return (
        "expected mat1 and mat2 to have the same dtype, but got:"
        f" {' != '.join(_in_cpp(first, second))}"
    )


def _addmm(added: Any, first: Any, second: Any, *_: Any, **__: Any) -> str:
    for name, other in (("self", added), ("mat1", first)):
        if _differ(other, second):
            return (
                f"{name} and mat2 must have the same dtype, but got"
                f" {' and '.join(_names(other, second))}"
            )
    return ""


def _addmv(added: Any, matrix: Any, vector: Any, *_: Any, **__: Any) -> str:
    if not _differ(added, matrix, vector):
        return ""
    one, two, three = _names(added, matrix, vector)
    return f"addmv input tensors must have the same dtype, but got {one}, {two}, and {three}"


def _mv(matrix: Any, vector: Any, *_: Any, **__: Any) -> str:
    return _addmv(vector, matrix, vector)


def _dot(first: Any, second: Any, *_: Any, **__: Any) -> str:
    if not _differ(first, second):
        return ""
    found = " and ".join(_names(first, second))
    return f"dot : expected both vectors to have same dtype, but found {found}"


def _read(places: tuple[int, int], *args: Any, **_: Any) -> str:
    """Compares an operand whose dtype a kernel has with another, which it reads as of that one."""
    expected, found = (args[place] if place < len(args) else None for place in places)
    if expected is None or found is None or not _differ(expected, found):
        return ""
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        return ""
    one, two = _names(expected, found)
    return f"expected scalar type {one} but found {two}"


def _of_floats(places: tuple[int, int], *args: Any, **_: Any) -> str:
    return _read(places, *args) if args[0].dtype in _FLOATS else ""


def _samples(input: Any, grid: Any, *_: Any, **__: Any) -> str:
    compared = input.dtype is not torch.bfloat16 and grid.dtype.is_floating_point
    return _of_floats((0, 1), input, grid) if compared else ""


def _group_norm(input: Any, weight: Any = None, *_: Any, **__: Any) -> str:
    if weight is None or not _differ(input, weight):
        return ""
    if input.dtype not in _FLOATS[:3]:
        return "mixed dtype (CPU): all inputs must share same datatype."
    if weight.dtype is torch.float32:
        return _read((0, 1), input, weight)
    return "mixed dtype (CPU): expect parameter to have scalar type of Float"


def _targets(_input: Any, target: Any, *_: Any, **__: Any) -> str:
    if target.dtype in (torch.int64, torch.uint8):
        return ""
    return f"expected target dtype to be Long or Byte, but got {_names(target)[0]}"


def _same_loss(input: Any, target: Any, *_: Any, **__: Any) -> str:
    if not _differ(input, target):
        return ""
    expected, found = _names(input, target)
    return f"Found dtype {found} but expected {expected}"


def _lerp(start: Any, end: Any, weight: Any = None, *_: Any, **__: Any) -> str:
    for name, other in (("end", end), ("weight", weight)):
        if isinstance(other, torch.Tensor) and _differ(start, other):
            expected, found = _in_cpp(start, other)
            return f"expected dtype {expected} for `{name}` but got dtype {found}"
    return ""


def _index_put(
    target: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any, **named: Any
) -> str:
    sums = accumulate or named.get("accumulate", False)
    given = [index for index in indices if index is not None]
    alone = len(given) == 1 and given[0].dtype in _MASKS and given[0].device == target.device
    if alone and not sums and values.numel() == 1 and values.device.type == "cpu":
        return _masked_fill(target, given[0]) or _kernel(
            "masked_fill_", (*UNSIGNED, *FLOAT8), target
        )
    if not _differ(target, values):
        return "" if sums else _kernel("index_put", UNSIGNED, target)
    destination, source = _names(target, values)
    return (
        "Index put requires the source and destination dtypes match, got"
        f" {destination} for the destination and {source} for the source."
    )


def _masked_fill(_target: Any, mask: Any, *_: Any, **__: Any) -> str:
    if mask.dtype is torch.bool:
        return ""
    return f"masked_fill only supports boolean masks, but got dtype {_names(mask)[0]}"


def _kernel(name: str, dtypes: tuple[torch.dtype, ...], target: Any) -> str:
    """Checks a kernel that does not know some dtypes."""
    return kernel_text(name, target.dtype) if target.dtype in dtypes and target.numel() else ""


def _embedding(_weight: Any, indices: Any, *_: Any, **__: Any) -> str:
    if indices.dtype in (torch.int64, torch.int32):
        return ""
    name = _names(indices)[0]
    shown = f"torch.cuda.{name}Tensor" if name in _LEGACY else f"CUDA{name}Type"
    return (
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long,"
        f" Int; but got {shown} instead (while checking arguments for embedding)"
    )


def _in_place(divides: bool, target: Any, other: Any, *_: Any, **named: Any) -> str:
    """Checks that the target takes the result: no integer takes a float."""
    with torch._C.DisableTorchFunction():
        result = torch.result_type(target, other)
    if divides and named.get("rounding_mode") is None and not result.is_floating_point:
        result = result if result.is_complex else torch.get_default_dtype()
    if torch.can_cast(result, target.dtype):
        return ""
    return (
        f"result type {NAMES[result]} can't be cast to the desired output type"
        f" {NAMES[target.dtype]}"
    )


#: What makes the text of an error of a call, or "", by operator.
OPERAND_CHECKS: Final[Mapping[Any, Callable[..., str]]] = MappingProxyType(
    {
        _aten.mm.default: _mm,
        _aten.addmm.default: _addmm,
        _aten.addmv.default: _addmv,
        _aten.mv.default: _mv,
        _aten.dot.default: _dot,
        _aten.bmm.default: partial(_read, (0, 1)),
        _aten.baddbmm.default: partial(_read, (1, 2)),
        _aten.grid_sampler_2d.default: _samples,
        **dict.fromkeys(
            (_aten._embedding_bag.default, _aten._embedding_bag_forward_only.default),
            partial(_of_floats, (0, 6)),
        ),
        _aten.native_layer_norm.default: partial(_of_floats, (0, 2)),
        _aten.native_group_norm.default: _group_norm,
        _aten.nll_loss_forward.default: _targets,
        _aten.binary_cross_entropy.default: _same_loss,
        **dict.fromkeys((_aten.lerp.Scalar, _aten.lerp.Tensor), _lerp),
        **dict.fromkeys(
            (_aten.index_put.default, _aten.index_put_.default, _aten._index_put_impl_.default),
            _index_put,
        ),
        **{
            getattr(op, overload): _masked_fill
            for op in (_aten.masked_fill, _aten.masked_fill_)
            for overload in ("Scalar", "Tensor")
        },
        _aten.embedding.default: _embedding,
        **{
            op: partial(_in_place, packet is _aten.div_)
            for packet in (_aten.add_, _aten.sub_, _aten.mul_, _aten.div_)
            for op in (packet.Tensor, packet.Scalar)
        },
    }
)
