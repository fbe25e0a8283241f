"""An operator call that is being noted: what is known of it before its results are."""

from __future__ import annotations

from typing import TypeGuard

import torch

from .notes import Buffer, Layout, Layouts, Note, Slot
from .op_traits import OpTraits


class Call:
    """An operator that is about to run."""

    __slots__ = (
        *("assumed", "before", "changed", "inputs", "known_inputs", "known_outputs"),
        *("note", "outputs", "read", "slots", "traits", "unknown"),
    )

    def __init__(self, note: Note, traits: OpTraits, changed: list[Slot], known: Layouts) -> None:
        self.note = note
        self.traits = traits
        self.changed = changed
        """The slots that it changes."""
        self.known_inputs, self.known_outputs = iter(known.inputs), iter(known.outputs)
        """The layouts of the next arguments and results."""
        self.inputs: list[Layout | None] = []
        """The layouts of the arguments that were not known."""
        self.outputs: list[Layout | None] = []
        """The same of the results."""
        self.slots: set[Slot] = set(changed)
        """The slots of its arguments."""
        self.read: list[Buffer] = []
        """The buffers that it reads."""
        self.before: list[Note] = []
        """The notes that wrote what it reads."""
        self.assumed = ""
        """The assumption that its results rest on."""
        self.unknown = ""
        """The reason why its results cannot be known; empty if they can."""

    def input(self, tensor: torch.Tensor) -> Layout | None:
        """Returns the layout of an argument that is not known; None if it has no strides."""
        layout = layout_of(tensor)
        self.inputs.append(layout)
        return layout

    def output(self, leaf: object) -> Layout | None:
        """Returns the same of a result; None for another thing than a plain tensor."""
        layout = layout_of(leaf)
        self.outputs.append(layout)
        return layout

    def enlarges(self, layout: Layout, slot: Slot) -> bool:
        """Returns True if an operator with ``out=`` enlarged the storage that it filled."""
        if not self.traits.filled or slot not in self.changed:
            return False
        return layout.end > slot.buffer.nbytes


def layout_of(value: object) -> Layout | None:
    """Returns the layout of a tensor with strides; None for anything else."""
    return Layout(value) if is_plain(value) else None


def is_plain(value: object) -> TypeGuard[torch.Tensor]:
    """Returns True for a tensor whose elements have strides."""
    if not isinstance(value, torch.Tensor):
        return False
    return value.layout is torch.strided and not value.is_nested
