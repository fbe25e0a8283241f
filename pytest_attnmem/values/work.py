"""The arithmetic of one noted operator, from shapes alone, and what is left of a read's limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

from ..errors import UnknownValue
from .host_table import arguments
from .notes import leaves, mapped
from .op_traits import Operator

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
#: Takes the arguments of a call, those by name, and what it returned.
Work = Callable[[tuple[Any, ...], Mapping[str, Any], Any], int]
_NUMBERS = frozenset({int, float, bool, str, type(None)})


def work(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> int:
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
    return work_of(func)(args, kwargs, outputs)


def work_of(func: Operator) -> Work:
    """Returns what counts the floating-point operations of an operator's calls."""
    name = func._schema.name.removeprefix("aten::")
    if name == "attnmem::triton_kernel":
        return lambda args, *_: int(prod(args[1].grid) * TRITON_LEAST * TRITON_OPERATION)
    if name == "attnmem::compiled_graph":
        return lambda args, *_: int(args[2].flops(args[0], args[1]))
    count: Work
    if _is_attention(name):
        count = partial(_attention, func, name.endswith("backward"))
    elif "conv_depthwise" in name:
        count = partial(_depthwise, func)
    elif name.startswith("_cudnn_rnn"):
        count = partial(_recurrent, func, name.endswith("backward"))
    elif name in DECOMPOSITIONS:
        count = partial(_decomposition, DECOMPOSITIONS[name])
    elif (of_shapes := _formula(func)) is not None:
        count = partial(_registered, of_shapes)
    else:
        return lambda *call: elements(call)
    return lambda *call: int(max(count(*call), elements(call)))


def elements(tree: Any) -> int:
    """Returns the elements of all tensors in a tree of tuples, lists and dicts."""
    shape = getattr(tree, "shape", None)
    if shape is not None:
        return prod(shape)
    if isinstance(tree, (tuple, list)):
        return sum([elements(one) for one in tree if type(one) not in _NUMBERS])
    return elements([*tree.values()]) if isinstance(tree, Mapping) else 0


def scores(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Returns the elements of the matrix of scores of an operator of attention; 0 of others.

    Packed keys count at their longest.
    """
    if not _is_attention(func._schema.name.removeprefix("aten::")):
        return 0
    return _scores(func, args, kwargs)[0]


def _is_attention(name: str) -> bool:
    return "_attention" in name and "mask" not in name


def _attention(
    func: Operator, backward: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any
) -> int:
    """Returns the products of queries, keys and values."""
    count, width = _scores(func, args, kwargs)
    return int(count * width * (BACKWARD_PRODUCTS if backward else 2))


def _scores(func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the number of scores, and the widths of a query and a value together."""
    call = arguments(func, args, kwargs)
    inputs = [getattr(call, name, None) for name in ("query", "key", "value")]
    shapes = [list(getattr(one, "shape", ())) for one in inputs]
    query, key, value = shapes
    if min(map(len, shapes)) < 3:
        return 0, 0
    if "scaled_dot_product" in func._schema.name or "_cudnn_attention" in func._schema.name:
        keys = key[-2]
    else:  # [B, M, H, d], or packed [T, H, d]
        longest = getattr(call, "max_k", None) or getattr(call, "max_seqlen_k", None)
        keys = longest if longest else key[-3]
    return prod(query[:-1]) * keys, query[-1] + value[-1]


def _depthwise(
    func: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any
) -> int:
    weight = arguments(func, args, kwargs).weight
    return int(2 * prod(next(leaves(outputs)).shape) * prod(weight.shape[1:]))


def _recurrent(
    func: Operator, backward: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any], _: Any
) -> int:
    call = arguments(func, args, kwargs)
    steps = prod(call.input.shape[:-1])
    weights = sum(prod(weight.shape) for weight in call.weight)
    return int(2 * steps * weights * (3 if backward else 1))


def _decomposition(products: int, args: tuple[Any, ...], *_: Any) -> int:
    """Returns so many products of the largest matrix [..., m, n] with its transpose."""
    shapes = [arg.shape for arg in args if len(getattr(arg, "shape", ())) > 1]
    square = max((int(2 * prod(shape) * min(shape[-2:])) for shape in shapes), default=0)
    return products * square


def _formula(func: Operator) -> Callable[..., Any] | None:
    """Returns PyTorch's formula, which takes shapes."""
    from torch.utils.flop_counter import flop_registry

    return getattr(flop_registry.get(func._overloadpacket), "__wrapped__", None)


def _registered(
    of_shapes: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any
) -> int:
    shaped = mapped(lambda leaf: getattr(leaf, "shape", leaf), (args, dict(kwargs), outputs))
    try:
        return int(of_shapes(*shaped[0], **shaped[1], out_shape=shaped[2]))
    except (AssertionError, AttributeError, IndexError, TypeError, ValueError):
        return 0  # a formula that does not know this overload


class WorkLeft:
    """A count of floating-point operations, which each read begins at its limit."""

    def __init__(self) -> None:
        self._limit = self._left = 0

    def allow(self, limit: int) -> None:
        """Begins a read."""
        self._limit = self._left = limit

    def spend(self, flops: int) -> None:
        """Takes the work of something that is about to run.

        Raises:
            UnknownValue: it is more than what is left.
        """
        self._left -= flops
        if self._left < 0:
            raise UnknownValue(
                "it takes more floating-point operations than --attnmem-values-limit, which is"
                f" {self._limit:.1e}"
            )
