"""An operator call whose notes are alike, so that each is made from the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .host_tensor import HostTensor
from .notes import Buffer, Layout, Layouts, Note, Ref
from .op_traits import op_traits


class RepeatedNote(NamedTuple):
    """A call that reads tensors, changes none, draws no numbers and makes one new tensor."""

    func: Any
    args: tuple[Any, ...]
    """The arguments, with anything in the places of tensors."""
    places: tuple[int, ...]
    """The positions of the tensors among the arguments."""
    kwargs: dict[str, Any]
    inputs: tuple[Layout, ...]
    """The layouts of the tensors."""
    output: Layout
    """The layout of the result, which begins with its storage."""

    def moved(self, by: Sequence[int]) -> RepeatedNote:
        """Returns the note of a call whose tensors begin so many elements further on."""
        inputs = tuple([layout.moved(one) for layout, one in zip(self.inputs, by, strict=True)])
        return self._replace(inputs=inputs)


class RepeatedRun(Note):
    """The note of such a call; most are freed before anybody reads their results."""

    __slots__ = ("_call", "_read", "_result")

    def __init__(
        self,
        number: int,
        call: RepeatedNote,
        read: list[Buffer | HostTensor],
        before: tuple[Note, ...],
        result: Buffer,
    ) -> None:
        self.number = number
        self.before = before
        self.readers = ()
        self.done = False
        self._call = call
        self._read = read
        self._result = result

    def prepare(self) -> None:
        """Makes the arguments of the operator."""
        call = self._call
        args = [*call.args]
        for place, layout, read in zip(call.places, call.inputs, self._read, strict=True):
            args[place] = Ref(layout, read) if type(read) is Buffer else read
        self.func, self.args, self.kwargs = call.func, tuple(args), call.kwargs
        self.outputs = ((0, Ref(call.output, self._result)),)
        self.written, self.random = (), None

    def finish(self, unknown: str = "") -> None:
        """Drops what a note that ran needs no more; its results may be ``unknown``."""
        super().finish(unknown)
        self._read = []


def repeated_note(
    func: Any,
    args: tuple[Any, ...],
    places: tuple[int, ...],
    kwargs: dict[str, Any],
    layouts: Layouts,
) -> RepeatedNote | None:
    """Returns the note that such calls share; None for a call of another kind.

    That of ``zeros_like`` and its kind has the layouts of the tensors, and reads none.
    """
    traits = op_traits(func)
    if traits.changed or traits.random or traits.reshapes:
        return None
    inputs = tuple([layout for layout in layouts.inputs if layout is not None])
    if len(inputs) != len(places) or len(layouts.outputs) != 1 or layouts.outputs[0] is None:
        return None
    if traits.likes:
        known = dict(zip(places, inputs, strict=True))
        args = tuple([known.get(place, arg) for place, arg in enumerate(args)])
        places, inputs = (), ()
    return RepeatedNote(func, args, places, kwargs, inputs, layouts.outputs[0])
