"""The outcome of an operator call, kept so that the same call need not be computed again."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...values.notes import Layouts
from ...values.repeated_note import RepeatedNote, repeated_note
from .fake_tensor import SimulatedTensor
from .op_plan import AllocationPlan, Output

if TYPE_CHECKING:
    import torch


#: What is known of layouts at first.
UNKNOWN: Final = Layouts((), ())
#: The most offsets at which the layouts of one call are kept.
_MOST: Final = 2048


def offsets_key(offsets: list[int]) -> tuple[int, ...]:
    """Returns the offsets of a call's tensors, or nothing if each is 0."""
    return tuple(offsets) if any(offsets) else ()


class CachedOutput(NamedTuple):
    """A recipe for one output of an operator."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    """The elements from the first of its source."""
    device: torch.device
    source: int
    """The position of the argument that the output is a view of, or -1."""


class NewTensor(NamedTuple):
    """A call that makes one new tensor on the device, and changes nothing."""

    note: RepeatedNote
    made: CachedOutput
    plan: AllocationPlan | None
    """None: it allocates the tensor alone."""


class CachedOp:
    """A cached operator call: its outputs, its allocation plan, and the layouts of its tensors."""

    __slots__ = ("_layouts", "_new_tensors", "container", "outputs", "plan", "returns")

    def __init__(
        self,
        outputs: tuple[CachedOutput | int | None, ...],
        container: type | None = None,
        returns: int | str | None = None,
    ) -> None:
        self.outputs = outputs
        """A recipe for each output that is a tensor, and the other outputs themselves."""
        self.container = container
        """``tuple`` or ``list``; None for a single tensor."""
        self.returns = returns
        """The argument that the operator returns, by position or name; None if it returns none."""
        self._layouts: dict[tuple[int, ...], Layouts] = {}
        self.plan: AllocationPlan | EllipsisType | None = ...
        """The allocation plan: None if no model knows it, ``...`` while nobody has asked."""
        self._new_tensors: dict[tuple[int, ...], NewTensor | None] = {}

    def layouts(self, offsets: tuple[int, ...]) -> Layouts:
        """Returns the layouts of its tensors at those offsets; empty if they are not known."""
        return self._layouts.get(offsets, UNKNOWN)

    def learn_layouts(self, offsets: tuple[int, ...], inputs: Any, outputs: Any) -> None:
        """Keeps the layouts of its tensors; those of an operator without values are empty."""
        if len(self._layouts) >= _MOST:
            self._layouts.clear()
            self._new_tensors.clear()
        self._layouts[offsets] = Layouts(tuple(inputs), tuple(outputs))

    def new_tensor(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], offsets: tuple[int, ...]
    ) -> NewTensor | None:
        """Returns how the call makes its one new tensor; None for a call of another kind.

        The call has run before, at those offsets.
        """
        found = self._new_tensors.get(offsets, ...)
        if found is ...:
            found = None
            if self.plan is not ... and offsets in self._layouts:
                found = self._new_tensor(func, args, kwargs, self._layouts[offsets])
                self._new_tensors[offsets] = found
        return found

    def _new_tensor(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], layouts: Layouts
    ) -> NewTensor | None:
        made = self.outputs[0] if len(self.outputs) == 1 and self.container is None else None
        if type(made) is not CachedOutput or made.source >= 0 or made.device.type != "cuda":
            return None
        others = (*(arg for arg in args if type(arg) is not SimulatedTensor), *kwargs.values())
        if type(self.plan) is not tuple or not all(map(_says_all, others)):
            return None
        places = tuple([at for at, arg in enumerate(args) if type(arg) is SimulatedTensor])
        plain = tuple([None if type(arg) is SimulatedTensor else arg for arg in args])
        note = repeated_note(func, plain, places, kwargs, layouts)
        if note is None:
            return None
        return NewTensor(note, made, None if self.plan == (Output(0),) else self.plan)


def _says_all(value: Any) -> bool:
    """Returns True if no other value equals it, and it is no tensor."""
    if isinstance(value, (list, tuple)):
        return all(map(_says_all, value))
    return type(value) is not SimulatedTensor and not (type(value) is float and not value)
