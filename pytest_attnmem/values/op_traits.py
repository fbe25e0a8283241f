"""Facts about an operator that decide what a note of it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch._ops import HigherOrderOperator, OpOverload

#: An operator with its overload, and one that takes functions, as ``flex_attention`` does.
Operator: TypeAlias = OpOverload
HigherOrder: TypeAlias = HigherOrderOperator

#: Operators that fill a tensor without reading it.
_FILLS = frozenset(
    {
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_"),
        *("exponential_", "geometric_", "log_normal_", "cauchy_", "_foreach_copy_"),
    }
)
#: Operators that read the shape of a tensor alone.
_LIKE = frozenset(
    {
        *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"),
        *("randint_like", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full"),
    }
)
_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
#: Operators that give a tensor another size: what it has stays, also in a larger storage.
_RESIZES = frozenset({"resize_", "resize_as_", "_resize_output_"})
#: Operators that change the running statistics, though their schemas do not say so.
_SILENT = frozenset(
    {
        *("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"),
        *("batch_norm_gather_stats", "batch_norm_gather_stats_with_counts"),
    }
)
_RUNNING = ("running_mean", "running_var")


class OpTraits(NamedTuple):
    """The way in which an operator uses its arguments."""

    changed: tuple[tuple[int, str], ...]
    """The position and the name of each argument that it changes."""
    filled: tuple[tuple[int, str], ...]
    """Those of them whose elements it does not read."""
    reshapes: bool
    """True if it gives its argument another storage or size, and changes no element."""
    resizes: bool
    """True if it gives its argument another size."""
    likes: bool
    """True if it reads no elements at all."""
    empty: bool
    """True if its outputs have no values yet."""
    random: bool
    """True if it draws random numbers."""


def written(func: Any, *more: str) -> tuple[tuple[int, str], ...]:
    """Returns the position and the name of each argument that an operator writes, and of more."""
    return tuple(
        (position, argument.name)
        for position, argument in enumerate(func._schema.arguments)
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or argument.name in more
    )


def given(places: Sequence[tuple[int, str]], args: Any, kwargs: Any) -> list[Any]:
    """Returns the arguments at some places of a call; None for one that is not given."""
    return [args[at] if at < len(args) else kwargs.get(name) for at, name in places]


def op_traits(func: Any) -> OpTraits:
    """Returns the traits of an operator."""
    schema = func._schema
    name = schema.name.partition("::")[2]
    changed = written(func, *_RUNNING) if name in _SILENT else written(func)
    outs = tuple(place for place in changed if schema.arguments[place[0]].is_out)
    return OpTraits(
        changed,
        filled=outs or (changed[:1] if name in _FILLS else ()),
        reshapes=name in _RESIZES or name == "set_",
        resizes=name in _RESIZES,
        likes=name in _LIKE,
        empty=name in _EMPTY,
        random=torch.Tag.nondeterministic_seeded in func.tags,
    )
