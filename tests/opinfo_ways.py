"""Other ways to call a sample of the database: with gaps, with other gradients, in a context.

A library calls an operator in each of them, and kernels and formulas then take other paths.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from opinfo_samples import Sample, backward, results_with_gradients
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

#: How many of an operator's samples are called in each way, of float32.
COUNTS = {torch.float32: 2}
#: The copies that ``vmap`` maps over.
_COPIES = 3

Op = Callable[..., Any]
#: What runs the backward pass, given the leaves, and the results that require a gradient.
Backward = Callable[[list[torch.Tensor], list[torch.Tensor]], object]


class Way(NamedTuple):
    """A way to call an operator, and to run its backward pass."""

    wrap: Callable[[Op], Op] = lambda op: op
    backward: Backward | None = lambda _, outputs: backward(outputs)
    gaps: bool = False


def ways_to_call(
    sample: Sample, device: str, *names: str
) -> Iterator[tuple[str, Op, Callable[[Any], bool]]]:
    """Yields the named ways of a sample, or all, each with a call and with the pass after it."""
    for name, way in WAYS.items():
        if names and name not in names:
            continue
        input, args, kwargs = replace(sample, gaps=way.gaps).on(device)
        leaves = [leaf for leaf in _tensors((input, args, kwargs)) if leaf.requires_grad]
        call = partial(way.wrap(sample.op), input, *args, **kwargs)
        yield name, call, partial(_run_backward, way.backward, leaves)


def _run_backward(run: Backward | None, leaves: list[torch.Tensor], result: Any) -> bool:
    """Runs the backward pass of a result; returns False if there is none."""
    outputs = results_with_gradients(result) if run is not None else []
    if outputs:
        run(leaves, outputs)
    return bool(outputs)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def _sum(values: Iterable[torch.Tensor]) -> torch.Tensor:
    """Returns the sum of all elements, the magnitudes of complex ones."""
    first, *others = ((x.abs() if x.is_complex() else x).sum() for x in values)
    for other in others:
        first = first + other
    return first


def _expanded(_: Any, outputs: list[torch.Tensor]) -> None:
    """Runs the backward of a sum, whose gradient is one element that is expanded."""
    _sum(outputs).backward()


def _transposed(_: Any, outputs: list[torch.Tensor]) -> None:
    """Runs the backward with gradients whose dimensions are stored in reverse."""
    grads = [
        torch.ones(x.shape[::-1], dtype=x.dtype, device=x.device).permute(
            *range(x.dim() - 1, -1, -1)
        )
        for x in outputs
    ]
    torch.autograd.backward(outputs, grads)


def _twice(leaves: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Runs the backward of the gradients."""
    ones = [torch.ones_like(x).requires_grad_() for x in outputs]
    grads = torch.autograd.grad(outputs, leaves, ones, create_graph=True, allow_unused=True)
    backward([grad for grad in grads if grad is not None])


def _with_duals(op: Op) -> Op:
    def run(*args: Any, **kwargs: Any) -> Any:
        def dual(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.requires_grad:
                primal = value.detach()
                return forward_ad.make_dual(primal, torch.ones_like(primal))
            return value

        with forward_ad.dual_level():
            args, kwargs = tree_map(dual, (args, kwargs))
            return op(*args, **kwargs)

    return run


def _of_tensors(op: Op, args: Any, kwargs: Any, chosen: list[torch.Tensor]) -> Op:
    """Returns the operator as a function of the chosen tensors among its arguments."""
    places = {id(tensor): place for place, tensor in enumerate(chosen)}

    def run(*tensors: torch.Tensor) -> Any:
        given, named = tree_map(
            lambda value: tensors[places[id(value)]] if id(value) in places else value,
            (args, kwargs),
        )
        return op(*given, **named)

    return run


def _differentiated(op: Op) -> Op:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_detached, (args, kwargs))
        chosen = [x for x in _tensors((args, kwargs)) if x.dtype.is_floating_point]
        function = _of_tensors(op, args, kwargs, chosen)

        def total(*tensors: torch.Tensor) -> torch.Tensor:
            return _sum(x for x in _tensors(function(*tensors)) if x.dtype.is_floating_point)

        return torch.func.grad(total, argnums=tuple(range(len(chosen))))(*chosen)

    return run


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _mapped(op: Op) -> Op:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_detached, (args, kwargs))
        chosen = [*_tensors((args, kwargs))]
        function = _of_tensors(op, args, kwargs, chosen)
        return torch.vmap(function)(*[torch.stack([x] * _COPIES) for x in chosen])

    return run


def _checkpointed(op: Op) -> Op:
    return lambda *args, **kwargs: checkpoint(op, *args, use_reentrant=False, **kwargs)


def _inside(context: Callable[[], AbstractContextManager[Any]]) -> Callable[[Op], Op]:
    def wrap(op: Op) -> Op:
        def run(*args: Any, **kwargs: Any) -> Any:
            with context():
                return op(*args, **kwargs)

        return run

    return wrap


WAYS = {
    "gaps": Way(gaps=True),
    "expanded": Way(backward=_expanded),
    "transposed": Way(backward=_transposed),
    "twice": Way(backward=_twice),
    "duals": Way(_with_duals, None),
    "grad": Way(_differentiated, None),
    "vmap": Way(_mapped, None),
    "checkpoint": Way(_checkpointed),
    "autocast": Way(_inside(lambda: torch.autocast("cuda", dtype=torch.bfloat16))),
    "inference": Way(_inside(torch.inference_mode), None),
}
