"""What a collective writes on a rank whose other ranks do not run.

It is as if every other rank held what this rank holds: a sum over W ranks is W times this rank's
values. Such values are assumed. Data that another rank sends to this one alone is not known. The
operators are those of torch/csrc/distributed/c10d/Ops.cpp.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist


class Group(NamedTuple):
    """A process group, as this rank sees it."""

    size: int
    rank: int
    name: str
    members: tuple[int, ...]
    """The ranks of the world that are in it."""


class Moved(NamedTuple):
    """A tensor that a collective writes, and what it writes there."""

    target: torch.Tensor
    source: torch.Tensor | None
    """The tensor that this rank would receive of itself; None if it is not known."""
    scale: float = 1
    assumed: bool = True
    """True if the values are those of other ranks as well."""


#: The attribute of ``ProcessGroup`` with the reduction that Python code asked for last, by thread.
_KEPT: Final = "_attnmem_asked"
#: From a group and an operator's arguments to what it writes.
Rule = Callable[[Group, Sequence[Any]], Iterator[Moved]]


def group_of(args: Sequence[Any]) -> Group | None:
    """Returns the process group among an operator's arguments."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg):
            group = dist.ProcessGroup.unbox(arg)
            members = tuple(dist.get_process_group_ranks(group))
            return Group(group.size(), group.rank(), group.group_name, members)
    return None


def _reduced(group: Group, op: Any, target: torch.Tensor, source: torch.Tensor) -> Moved:
    """Returns what a reduction of equal values writes."""
    kind = _kind(op)
    if kind == dist.ReduceOp.SUM:
        return Moved(target, source, group.size)
    if kind == dist.ReduceOp.PREMUL_SUM:
        factor = _factor(op)
        return Moved(target, None if factor is None else source, group.size * (factor or 1))
    same = kind in (dist.ReduceOp.AVG, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
    return Moved(target, source if same else None)


def _kind(op: Any) -> Any:
    """Returns which reduction an operator's argument stands for.

    Before PyTorch 2.10 it does not say. Then it is what Python code asked for; None if C++ code
    did, as the reducer of DistributedDataParallel does.
    """
    if hasattr(op, "op"):
        return dist.ReduceOp.RedOpType(op.op())
    asked = getattr(dist.ProcessGroup, _KEPT, None)
    return getattr(asked, "kind", None)


def hear_reductions(group: Any) -> None:
    """Makes the methods of a process group's class note which reduction Python code asks for."""
    asked = threading.local()
    setattr(group, _KEPT, asked)
    methods = ("allreduce", "reduce", "reduce_scatter", "_reduce_scatter_base")
    for name in (*methods, "allreduce_coalesced", "reduce_scatter_tensor_coalesced"):
        setattr(group, name, _heard(asked, getattr(group, name)))


def _heard(asked: Any, method: Any) -> Any:
    def heard(self: Any, *args: Any, **kwargs: Any) -> Any:
        kinds = dist.ReduceOp.RedOpType.__members__.values()
        given = [getattr(arg, "reduceOp", arg) for arg in (*args, *kwargs.values())]
        ops = [arg for arg in given if isinstance(arg, (dist.ReduceOp, dist.ReduceOp.RedOpType))]
        found = (kind for kind in kinds for op in ops if op == kind)
        asked.kind = next(found, None) if ops else dist.ReduceOp.SUM  # the default
        try:
            return method(self, *args, **kwargs)
        finally:
            asked.kind = None

    return heard


def _factor(op: Any) -> float | None:
    """Returns what a reduction multiplies with before it sums; None before PyTorch 2.15."""
    unbox = getattr(dist.ReduceOp, "unbox", None)
    factor = None if unbox is None else unbox(op).factor
    return float(factor) if isinstance(factor, (int, float)) else None


def _all_reduce(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for tensor in args[0]:
        yield _reduced(group, args[2], tensor, tensor)


def _broadcast(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    if group.rank != args[2]:
        yield from (Moved(tensor, tensor) for tensor in args[0])


def _gathered(group: Group, target: torch.Tensor, source: torch.Tensor) -> Iterator[Moved]:
    """Yields what a tensor gets that has a place for each rank; ``source`` may be in its own.

    A source elsewhere is one write: the storage of a target may be new, as FSDP1 resizes it, and is
    known from end to end only if a write fills it.
    """
    places = target.view(group.size, -1)
    own = source.reshape(1, -1)
    if target.untyped_storage()._cdata != source.untyped_storage()._cdata:
        yield Moved(places, own)
        return
    yield Moved(places[: group.rank], own)
    yield Moved(places[group.rank :][:1], own)
    yield Moved(places[group.rank + 1 :], own)


def _all_gather(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for targets, source in zip(args[0], args[1], strict=True):
        yield from (Moved(target, source) for target in targets)


def _all_gather_coalesced(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for targets in args[0]:
        yield from map(Moved, targets, args[1])


def _all_gather_base(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    return _gathered(group, args[0], args[1])


def _all_gather_bases(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for target, source in zip(args[0], args[1], strict=True):
        yield from _gathered(group, target, source)


def _reduce_scatter(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for target, sources in zip(args[0], args[1], strict=True):
        yield _reduced(group, args[3], target, sources[group.rank])


def _own_part(group: Group, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(group.size, -1)[group.rank]


def _reduce_scatter_base(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    yield _reduced(group, args[3], args[0].view(-1), _own_part(group, args[1]))


def _reduce_scatter_bases(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for target, source in zip(args[0], args[1], strict=True):
        yield _reduced(group, args[3], target.view(-1), _own_part(group, source))


def _on_root(rule: Rule) -> Rule:
    """Returns a rule for one rank of the group alone, the root."""
    return lambda group, args: rule(group, args) if group.rank == args[3] else iter(())


def _scatter(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    for position, target in enumerate(args[0]):
        own = group.rank == args[3]
        yield Moved(target, args[1][position][group.rank] if own else None, assumed=not own)


def _all_to_all(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    """Yields this rank's own part from each rank; another size is not known."""
    own = args[1][group.rank]
    for target in args[0]:
        yield Moved(target, own if target.shape == own.shape else None)


def _all_to_all_base(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    target, source, into, of = args[0], args[1], args[3], args[4]
    even = (group.size if not len(target) else len(target) // group.size,) * group.size
    parts = source.split(list(of or (len(source) // group.size,) * group.size))
    places = target.split(list(into or even)) if len(target) else ()
    own = parts[group.rank]
    if all(place.shape == own.shape for place in places):
        yield from (Moved(place, own) for place in places)
    else:
        yield Moved(target, None)


def _received(group: Group, args: Sequence[Any]) -> Iterator[Moved]:
    yield from (Moved(tensor, None) for tensor in args[0])


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "allreduce_": _all_reduce,
        "allreduce_coalesced_": _all_reduce,
        "reduce_": _on_root(_all_reduce),
        "broadcast_": _broadcast,
        "allgather_": _all_gather,
        "allgather_coalesced_": _all_gather_coalesced,
        "_allgather_base_": _all_gather_base,
        "allgather_into_tensor_coalesced_": _all_gather_bases,
        "reduce_scatter_": _reduce_scatter,
        "_reduce_scatter_base_": _reduce_scatter_base,
        "reduce_scatter_tensor_coalesced_": _reduce_scatter_bases,
        "gather_": _on_root(_all_gather),
        "gather_into_tensor_": _on_root(_all_gather_base),
        "scatter_": _scatter,
        "alltoall_": _all_to_all,
        "alltoall_base_": _all_to_all_base,
        "recv_": _received,
        "recv_any_source_": _received,
    }
)
