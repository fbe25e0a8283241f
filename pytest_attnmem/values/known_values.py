"""The values of the tensors of a device, computed on the host when one is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch

from ..errors import UnknownValue
from .call import Call, is_plain, layout_of
from .notes import Buffer, Layout, Note, Random, Ref, Slot
from .replay import Replay, unwritten, view

NOT_PLAIN = "the values of sparse and nested tensors are not followed"
_PAD = torch.ops.aten.constant_pad_nd.default


class Storages(Protocol):
    """The storages of a device."""

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """Returns the slot of a tensor's storage; None if the tensor is on the host."""

    def all(self) -> Iterator[Slot]:
        """Yields each slot."""

    def random(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Random:
        """Returns the state that an operator draws from."""


class KnownValues:
    """Runs the notes that a value depends on when it is read, and knows which values are lost."""

    def __init__(self, storages: Storages, limit: int) -> None:
        self.replay = Replay(limit)
        self._storages = storages
        self._find = storages.find
        self._fault = ""
        """The reason to trust no value: a storage was freed, and nobody reported it."""

    def value_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the values of a tensor of the device, on the host; they must not be changed.

        Raises:
            UnknownValue: nobody can know them, or they cost more work than the limit.
        """
        layout = layout_of(tensor)
        if layout is None or self._fault:
            raise UnknownValue(self._fault or NOT_PLAIN)
        slot = self._find(tensor)
        if slot is None:
            return tensor
        self._run_writer(slot)
        return view(Ref(layout, slot.buffer))

    def contents(self, slot: Slot) -> torch.Tensor:
        """Returns the bytes of a storage, uint8 on the host; they must not be changed.

        Raises:
            UnknownValue: nobody can know them, or they cost more work than the limit.
        """
        if self._fault:
            raise UnknownValue(self._fault)
        self._run_writer(slot)
        return slot.buffer.on_host()

    def _run_writer(self, slot: Slot) -> None:
        if slot.writer is not None and not slot.writer.done:
            self.replay.finish(slot.writer)
        if slot.buffer.unknown:
            raise UnknownValue(slot.buffer.unknown)

    def put(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Records the values of a tensor that was filled from the host without an operator."""
        slot = self._storages.find(tensor)
        if slot is not None:
            layout = Layout(tensor)
            slot.buffer, slot.writer = Buffer(layout.end), None
            view(Ref(layout, slot.buffer)).copy_(values)

    def share(self, tensor: torch.Tensor, memory: torch.Tensor) -> None:
        """Records that a storage has what is in memory of the host, until an operator writes it.

        Memory that is not PyTorch's, such as that of an array, is copied: nobody sees writes to it.
        """
        slot, storage = self._storages.find(tensor), memory.untyped_storage()
        if slot is None:
            return
        whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
        is_ours = storage.resizable() and not storage.is_shared()
        slot.buffer, slot.writer = Buffer(storage.nbytes()), None
        slot.buffer.contents = whole if is_ours else whole.clone()
        slot.buffer.shared = is_ours

    def is_written(self, tensor: torch.Tensor) -> bool:
        """Returns True if an operator wrote the storage of a tensor."""
        slot = self._find(tensor)
        return slot is not None and slot.writer is not None

    def _resized(self, call: Call, tensor: torch.Tensor) -> None:
        """Notes that a tensor has another storage, or a larger one, with the same first bytes."""
        layout, slot = layout_of(tensor), self._find(tensor)
        old = call.read[0]
        if slot is None or layout is None or (slot.buffer is old and layout.end <= old.nbytes):
            return
        if call.unknown:
            make_unknown(slot, call.unknown)
            return
        size = layout.dtype.itemsize
        kept, made = (_row(nbytes // size, layout.dtype) for nbytes in (old.nbytes, layout.end))
        pad = [0, made.shape[0] - kept.shape[0]]
        note = Note(call.note.number, _PAD, (Ref(kept, old), pad, unwritten(layout.dtype)), {})
        note.before = tuple(call.before)
        slot.buffer, slot.writer = Buffer(layout.end), note
        slot.buffer.assumed = call.assumed
        note.outputs = ((0, Ref(made, slot.buffer)),)
        old.read_by(note)

    def assume(self, tensor: torch.Tensor, assumption: str) -> None:
        """Records that the values of a tensor, and what is computed of them, are assumed."""
        slot = self._storages.find(tensor)
        if slot is not None:
            slot.buffer.assumed = assumption

    def assumption(self, tensor: torch.Tensor) -> str:
        """Returns the assumption that the values of a tensor rest on; empty if they are true."""
        slot = self._find(tensor) if is_plain(tensor) else None
        return slot.buffer.assumed if slot is not None else ""

    def lose(self, tensor: torch.Tensor, reason: str) -> None:
        """Records that something unknown wrote to a tensor."""
        slot = self._storages.find(tensor)
        if slot is not None:
            make_unknown(slot, reason)

    def lose_all(self, reason: str) -> None:
        """Records that something unknown may have written to any tensor."""
        for slot in self._storages.all():
            make_unknown(slot, reason)

    def forget(self, reason: str) -> None:
        """Drops all notes that have not been run: what they write becomes unknown."""
        for slot in self._storages.all():
            if slot.writer is not None and not slot.writer.done:
                make_unknown(slot, reason)


def make_unknown(slot: Slot, reason: str) -> None:
    """Records that nobody knows what a storage contains."""
    slot.buffer, slot.writer = Buffer(0, reason), None


def _row(count: int, dtype: torch.dtype) -> Layout:
    """Returns the layout of so many elements from the start of a storage."""
    return Layout(torch.empty(count, dtype=dtype, device="meta"))
