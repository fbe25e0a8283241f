"""The arithmetic of one noted operator, from shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torch.utils._pytree import tree_flatten, tree_map

from .host_table import arguments

if TYPE_CHECKING:
    from torch._ops import OpOverload

#: The products of a backward of attention, where the forward has two.
BACKWARD_PRODUCTS = 5
#: What an operation of an interpreted Triton kernel counts, and each element that it takes: some
#: 100 µs and 1 ns. A product runs at the speed of the CPU, and its elements count more than enough.
TRITON_OPERATION = 5 * 10**6
TRITON_ELEMENT = 50
#: The operations that a program of a Triton kernel has at least; how many it has shows as it runs.
TRITON_LEAST = 4
#: The products of a matrix with itself that take as long on a CPU as a decomposition of the matrix.
DECOMPOSITIONS = MappingProxyType(
    {
        **dict.fromkeys(
            ("linalg_cholesky_ex", "linalg_lu", "linalg_lu_factor_ex", "linalg_ldl_factor_ex",
             "linalg_inv_ex", "_linalg_det", "_linalg_slogdet", "_linalg_solve_ex",
             "cholesky_inverse", "linalg_lu_solve", "linalg_ldl_solve", "cholesky_solve",
             "linalg_solve_triangular", "triangular_solve"), 5,
        ),
        **dict.fromkeys(("linalg_qr", "geqrf", "linalg_householder_product", "ormqr"), 20),
        **dict.fromkeys(("_linalg_eigh", "linalg_lstsq", "linalg_matrix_exp"), 20),
        **dict.fromkeys(("_linalg_svd", "linalg_pinv"), 100),
        **dict.fromkeys(("_linalg_eigvals", "linalg_eig"), 500),
    }
)  # fmt: skip
INPUTS = ("query", "key", "value")


def work(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> int:
    """Returns the floating-point operations of one operator.

    Products, convolutions and recurrent networks count two for each multiplication and addition,
    as ``torch.utils.flop_counter`` does, and attention the whole matrix of scores. A decomposition
    of a matrix counts as products that take as long, and a Triton kernel its programs at their
    least. Every other operator counts the elements of its inputs and
    outputs.

    Args:
        func: the operator.
        args: its arguments; what stands for a tensor has a ``shape``.
        kwargs: the same by name.
        outputs: what it returned, in the same way.
    """
    name = func._schema.name.removeprefix("aten::")
    if name == "attnmem::triton_kernel":
        return int(prod(args[1].grid) * TRITON_LEAST * TRITON_OPERATION)
    if name == "attnmem::compiled_graph":
        return int(args[2].flops(args[0], args[1]))
    if _is_attention(name):
        found = _attention(func, args, kwargs, backward=name.endswith("backward"))
    elif name.startswith(("cudnn_convolution", "_conv_depthwise", "conv_depthwise")):
        found = _cudnn_convolution(func, args, kwargs, outputs)
    elif name.startswith("_cudnn_rnn") and name != "_cudnn_rnn_flatten_weight":
        found = _recurrent(func, args, kwargs, backward=name.endswith("backward"))
    elif name in DECOMPOSITIONS:
        found = DECOMPOSITIONS[name] * _square(args)
    else:
        found = _registered(func, args, kwargs, outputs)
    elements: int = sum(prod(leaf.shape) for leaf in tree_flatten((args, dict(kwargs), outputs))[0]
                   if hasattr(leaf, "shape"))  # fmt: skip
    return int(max(found, elements))


def scores(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Returns the elements of the matrix of scores of an operator of attention; 0 of others.

    Packed keys count at their longest.
    """
    if not _is_attention(func._schema.name.removeprefix("aten::")):
        return 0
    return _scores(func, args, kwargs)[0]


def _is_attention(name: str) -> bool:
    return "_attention" in name and "mask" not in name


def _attention(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, backward: bool
) -> int:
    """Returns the products of queries, keys and values."""
    count, width = _scores(func, args, kwargs)
    return int(count * width * (BACKWARD_PRODUCTS if backward else 2))


def _scores(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the number of scores, and the widths of a query and a value together."""
    call = arguments(func, args, kwargs)
    shapes = [list(getattr(getattr(call, name, None), "shape", ())) for name in INPUTS]
    query, key, value = shapes
    if min(map(len, shapes)) < 3:
        return 0, 0
    if "scaled_dot_product" in func._schema.name or "_cudnn_attention" in func._schema.name:
        keys = key[-2]
    else:  # [B, M, H, d], or packed [T, H, d]
        longest = getattr(call, "max_k", None) or getattr(call, "max_seqlen_k", None)
        keys = longest if longest else key[-3]
    return prod(query[:-1]) * keys, query[-1] + value[-1]


def _cudnn_convolution(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any
) -> int:
    call = arguments(func, args, kwargs)
    transposed = "transpose" in func._schema.name
    places = call.self.shape if transposed else tree_flatten(outputs)[0][0].shape
    return int(2 * prod(places) * prod(call.weight.shape[1:]))


def _recurrent(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, backward: bool
) -> int:
    call = arguments(func, args, kwargs)
    steps = prod(call.input.shape[:-1])
    weights = sum(prod(weight.shape) for weight in call.weight)
    return int(2 * steps * weights * (3 if backward else 1))


def _square(args: tuple[Any, ...]) -> int:
    """Returns the operations of a product of the largest matrix [..., m, n] with its transpose."""
    shapes = [arg.shape for arg in args if len(getattr(arg, "shape", ())) > 1]
    return max((int(2 * prod(shape) * min(shape[-2:])) for shape in shapes), default=0)


def _registered(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any
) -> int:
    """Returns what PyTorch's formula says, 0 without one."""
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(func._overloadpacket)
    of_shapes: Callable[..., Any] | None = getattr(formula, "__wrapped__", None)
    if of_shapes is None:
        return 0
    shaped = tree_map(lambda leaf: getattr(leaf, "shape", leaf), (args, dict(kwargs), outputs))
    try:
        return int(of_shapes(*shaped[0], **shaped[1], out_shape=shaped[2]))
    except (AssertionError, AttributeError, IndexError, TypeError, ValueError):
        return 0  # a formula that does not know this overload
