"""The steps of a call that makes new tensors, so that it can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...values.repeated_note import RepeatedNote, repeated_note
from .cached_op import CachedOutput
from .fake_tensor import SimulatedTensor
from .heard_ops import HeardOp, HeardOps
from .op_plan import AllocationPlan, Output

if TYPE_CHECKING:
    import torch

#: The most offsets at which the steps of one call are kept.
_MOST: Final = 2048


class Step(NamedTuple):
    """An operator whose result has a new storage, to which nothing else refers."""

    note: RepeatedNote
    places: tuple[int, ...]
    """The places of its tensors: among the arguments of the call, and then the results before."""
    made: CachedOutput
    """The result of the operator."""
    kept: CachedOutput
    """The tensor that is made for it; of the last step, what the call returns, or a view of it."""
    plan: AllocationPlan | None
    """None: it allocates the result alone."""
    freed: tuple[int, ...]
    """The places of the results that are freed after it, in their order."""

    def moved(self, by: Mapping[int, int]) -> Step:
        """Returns the step of a call whose arguments begin so many elements further on."""
        return self._replace(note=self.note.moved([by.get(place, 0) for place in self.places]))


class Steps(NamedTuple):
    """The steps of a call that makes new tensors."""

    steps: tuple[Step, ...]
    view: tuple[tuple[int, ...], tuple[int, ...], int] | None
    """The sizes, strides and offset of the view that it returns; None: the last result itself."""


class AlikeCalls:
    """Calls that differ in the offsets of their tensors alone."""

    __slots__ = ("_first", "at")

    def __init__(self, offsets: tuple[int, ...], steps: Steps | None) -> None:
        self._first = offsets
        self.at = {} if steps is None else {offsets: steps}
        """The steps by offsets; empty if they do something else than make new tensors."""

    def __bool__(self) -> bool:
        return bool(self.at)

    def moved(self, offsets: tuple[int, ...], args: tuple[Any, ...]) -> Steps:
        """Returns the steps at other offsets, of the tensors among ``args`` in their order."""
        places = [place for place, arg in enumerate(args) if type(arg) is SimulatedTensor]
        by = dict(zip(places, map(sub, offsets, self._first), strict=True))
        first = self.at[self._first]
        if len(self.at) >= _MOST:
            self.at = {self._first: first}
        found = first._replace(steps=tuple([step.moved(by) for step in first.steps]))
        self.at[offsets] = found
        return found


def steps_of(heard: HeardOps, result: CachedOutput, view: torch.Tensor | None) -> Steps | None:
    """Returns the steps of a call; None if it does something else than make new tensors.

    Args:
        heard: the operators that it has run.
        result: the tensor that it has made.
        view: the view of it that it has returned; None if it returned the tensor itself.
    """
    if view is not None and view.dtype != result.dtype:
        return None
    last = len(heard.ops) - 1
    steps: list[Step] = []
    for at, op in enumerate(heard.ops):
        freed = tuple([place for after, place in heard.freed if after == at + 1])
        step = _step(op, result if at == last else None, freed)
        if step is None:
            return None
        steps.append(step)
    if view is None:
        return Steps(tuple(steps), None)
    return Steps(tuple(steps), (tuple(view.shape), view.stride(), int(view.storage_offset())))


def _step(op: HeardOp, result: CachedOutput | None, freed: tuple[int, ...]) -> Step | None:
    cached = op.cached
    if cached is None or cached.container is not None or len(cached.outputs) != 1:
        return None
    made, plan, operands = cached.outputs[0], cached.plan, op.operands
    if not isinstance(made, CachedOutput) or made.source >= 0 or operands is None:
        return None
    kept = made if result is None else result
    if kept.device.type != "cuda" or not isinstance(plan, tuple):
        return None
    tensors = [(at, place) for at, (place, _) in enumerate(operands) if place >= 0]
    args = tuple([value for _, value in operands])
    at = tuple([at for at, _ in tensors])
    note = repeated_note(op.func, args, at, op.kwargs, op.layouts)
    if note is None or note.places != at:
        return None
    places = tuple([place for _, place in tensors])
    return Step(note, places, made, kept, None if plan == (Output(0),) else plan, freed)
