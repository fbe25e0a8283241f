"""The tensors that autograd holds in C++: gradients, and what its graph saved for backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch
from torch.autograd.function import BackwardCFunction

from ...errors import ProgramRefused
from ...measurement.protocol import SearchTime
from .owners import Edge

_SAVED: Final = "_raw_saved_"


def edges(
    live: Iterable[torch.Tensor],
    number_of: Callable[[Any], int | None],
    wanted: set[int],
    seconds: SearchTime,
) -> Iterator[tuple[torch.Tensor, Edge, int]]:
    """Yields a live tensor, the way to a wanted tensor that it holds in C++, and its number."""
    seen: set[Any] = set()
    for tensor in live:
        if seconds.remaining <= 0:
            return
        if tensor.is_leaf:
            gradient = tensor.grad
            if gradient is not None and (number := number_of(gradient)) in wanted:
                yield tensor, Edge("{}.grad", "the gradient of a tensor"), number
            continue
        for node in _graph(tensor.grad_fn, seen):
            if (number := number_of(getattr(node, "variable", None))) in wanted:
                yield tensor, Edge("an input in the graph of {}", "an input of a graph"), number
            for name, kept in _saved(node):
                if (number := number_of(kept)) in wanted:
                    by = f"saved by {name}"
                    yield tensor, Edge(f"{by} in the graph of {{}}", by), number


def is_own_output(ctx: Any, tensors: Iterable[torch.Tensor]) -> bool:
    """Returns True for the context of a function of autograd that made one of the tensors.

    The tensor's ``grad_fn`` holds the context, in C++; if the context holds the tensor, the two are
    a cycle that Python's collector does not see.
    """
    if not isinstance(ctx, BackwardCFunction):
        return False
    held = [*tensors, *_attributes(ctx)]
    seen: set[Any] = set()
    return any(
        node is ctx
        for one in held
        if isinstance(one, torch.Tensor)
        for node in _graph(one.grad_fn, seen)
    )


def _attributes(ctx: Any) -> Iterator[Any]:
    """Yields the values of a context's attributes, and what lists, tuples and dicts there hold."""
    waiting = [*vars(ctx).values()]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()


def _graph(node: Any, seen: set[Any]) -> Iterator[Any]:
    """Yields the nodes of a graph that were not ``seen`` before."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += (one for one, _ in node.next_functions)


def _saved(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors that a node saved, with names; a hook that would unpack one is not run."""
    own = isinstance(node, BackwardCFunction)
    shown = node.name().removesuffix("Backward") + ".ctx" if own else node.name()
    for attribute in dir(node):
        if not attribute.startswith(_SAVED):
            continue
        try:
            saved = getattr(node, attribute)
        except (ProgramRefused, RuntimeError):  # a backward pass has freed them
            continue
        for index, one in enumerate(saved if isinstance(saved, (tuple, list)) else [saved]):
            kept = None if one is None or one.unpack_hook is not None else one.data
            if isinstance(kept, torch.Tensor):
                yield (f"{shown}.saved_tensors[{index}]" if own else shown), kept
