"""What NCCL writes on the devices of one process, as for ``nn.DataParallel``.

PyTorch calls it past the dispatcher there: torch/csrc/cuda/comm.cpp and python_nccl.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, Final

import torch

from .noting import Noting

_aten = torch.ops.aten

#: What a function wrote: operators and their arguments.
Writes = Iterator[tuple[Any, ...]]
#: From what a function returned and its arguments to what it wrote.
Rule = Callable[..., Writes]

_MEAN = 4
#: By ncclRedOp_t; the mean is a sum at first.
_REDUCTIONS = (
    *(_aten.add_.Tensor, _aten.mul_.Tensor, _aten.clamp_min_.Tensor, _aten.clamp_max_.Tensor),
    _aten.add_.Tensor,
)


def follow_device_collectives(noting: Noting) -> None:
    """Notes from now on what the functions of PyTorch write that call NCCL."""
    module: Any = torch._C
    for name, rule in _RULES.items():
        setattr(module, name, _noted(noting, getattr(module, name), rule))


def _noted(noting: Noting, function: Any, rule: Rule) -> Any:
    @wraps(function)
    def run(*args: Any) -> Any:
        out = function(*args)
        with noting.past_dispatcher() as tape:
            for func, target, other in rule(out, *args):
                if target.numel():
                    tape.end(tape.begin(func, (target, other), {}), target)
        return out

    return run


def _copied(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> Writes:
    for target, source in zip(targets, sources, strict=True):
        if target.data_ptr() != source.data_ptr():
            yield _aten.copy_.default, target, source


def _reduced(target: torch.Tensor, sources: Sequence[torch.Tensor], op: int) -> Writes:
    others = [source for source in sources if source.data_ptr() != target.data_ptr()]
    if len(others) == len(sources):
        yield _aten.copy_.default, target, others.pop(0)
    for other in others:
        yield _REDUCTIONS[op], target, other
    if op == _MEAN:
        yield _aten.div_.Scalar, target, len(sources)


def _place(tensor: torch.Tensor, number: int, like: torch.Tensor) -> torch.Tensor:
    """Returns the part of a tensor that has the elements of one device."""
    return tensor.view(-1).narrow(0, number * like.numel(), like.numel()).view(like.shape)


def _broadcast(targets: Sequence[torch.Tensor], source: torch.Tensor) -> Writes:
    return _copied(targets, [source] * len(targets))


def _broadcast_coalesced(out: Any, tensors: Any, *_: Any) -> Writes:
    for targets in out:
        yield from _copied(targets, tensors)


def _all_reduce(out: None, inputs: Any, targets: Any, op: int, *_: Any) -> Writes:
    yield from _reduced(targets[0], inputs, op)
    yield from _broadcast(targets[1:], targets[0])


def _all_gather(out: None, inputs: Any, targets: Any, *_: Any) -> Writes:
    for target in targets:
        places = [_place(target, number, source) for number, source in enumerate(inputs)]
        yield from _copied(places, inputs)


def _reduce_scatter(out: None, inputs: Any, targets: Any, op: int, *_: Any) -> Writes:
    for number, target in enumerate(targets):
        yield from _reduced(target, [_place(one, number, target) for one in inputs], op)


_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "_broadcast": lambda out, tensor, devices: _broadcast(out, tensor),
        "_broadcast_out": lambda out, tensor, targets: _broadcast(targets, tensor),
        "_broadcast_coalesced": _broadcast_coalesced,
        "_nccl_broadcast": lambda out, tensors, root, *_: _broadcast(tensors, tensors[root]),
        "_nccl_reduce": lambda out, inputs, target, root, op, *_: _reduced(target, inputs, op),
        "_nccl_all_reduce": _all_reduce,
        "_nccl_all_gather": _all_gather,
        "_nccl_reduce_scatter": _reduce_scatter,
    }
)
