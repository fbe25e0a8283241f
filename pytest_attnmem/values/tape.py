"""A tape of operators on a device that computes nothing; it computes a value when one is read.

Efficient attention returns its seed and its offset as tensors of the host. The host's equivalent
has seeds of its own, so the backward pass gets those in the place of the device's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .call import Call, is_plain, layout_of
from .host_tensor import HostTensor, HostTensors
from .known_values import NOT_PLAIN, KnownValues, Storages, make_unknown
from .notes import Buffer, Layouts, Note, Ref, Slot, leaves
from .op_traits import OpTraits, given, op_traits
from .repeated_note import RepeatedNote, RepeatedRun

#: Seeds that are remembered: more than the layers of a model.
_MOST = 4096


class Seeds:
    """The slots of seeds on the host, by address; autograd keeps the storage, not the object."""

    def __init__(self) -> None:
        self._slots: OrderedDict[int, tuple[int, Slot]] = OrderedDict()

    def output(self, tensor: torch.Tensor) -> Slot | None:
        """Returns a new slot for a seed that an operator returned; None for another tensor."""
        if _is_no_seed(tensor):
            return None
        slot = Slot(Buffer(0))
        self._slots[tensor.data_ptr()] = int(tensor), slot
        if len(self._slots) > _MOST:
            self._slots.popitem(last=False)
        return slot

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """Returns the slot of a seed; None if the memory has had another value since."""
        if not self._slots or _is_no_seed(tensor):
            return None
        value, slot = self._slots.get(tensor.data_ptr(), (None, None))
        return slot if slot is not None and int(tensor) == value else None


def _is_no_seed(tensor: torch.Tensor) -> bool:
    return tensor.numel() != 1 or tensor.is_floating_point() or tensor.is_complex()


#: Notes that wait to be run; beyond this number the oldest values are forgotten.
MOST = 400_000
_REUSED = "the memory of an argument was used again for a result"
_UNKNOWN = Layouts((), ())
_NUMBERS = frozenset({int, float, bool, type(None)})


class Tape(KnownValues):
    """Notes each operator: what it reads and what it writes."""

    def __init__(
        self, storages: Storages, limit: int, most: int = MOST, *, by_address: bool = False
    ) -> None:
        super().__init__(storages, limit)
        self._by_address = by_address
        """True if a storage is known by its address, so that a missed free can be noticed."""
        self._most = most
        self._count = 0
        self._traits: dict[int, OpTraits] = {}
        self._seeds = Seeds()
        self._host = HostTensors()

    def begin(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        known: Layouts = _UNKNOWN,
    ) -> Call:
        """Notes the arguments of an operator before it runs.

        ``known`` are the layouts of its tensors if the same call was noted before.
        """
        self._host.let_go()
        traits = self._traits.get(id(func)) or self._traits_of(func)
        self._count_one()
        note = Note(self._count, func, (), kwargs)
        if traits.changed and self._host.kept:
            self._keep_host(traits, args, kwargs)
        changed = self._changed(traits, args, kwargs) if traits.changed else []
        call = Call(note, traits, changed, known)
        if traits.reshapes:
            for slot in changed if traits.resizes else ():
                self._will_read(slot, call)
            return call
        if traits.filled and changed:
            self._start_afresh(traits, args, kwargs)
        note.args = tuple(
            [arg if type(arg) in _NUMBERS else self._noted(arg, call) for arg in args]
        )
        if kwargs:
            note.kwargs = {name: self._noted(arg, call) for name, arg in kwargs.items()}
        if traits.random:
            note.random = self._storages.random(func, args, kwargs)
        note.before = tuple(call.before)
        return call

    def run_on_host(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keeps what notes read of the tensors that an operator of the host is about to write."""
        if self._host.kept and (traits := self._traits_of(func)).changed:
            self._host.let_go()
            self._keep_host(traits, args, kwargs)

    def _keep_host(self, traits: OpTraits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for leaf in leaves(given(traits.changed, args, kwargs)):
            if is_plain(leaf) and self._find(leaf) is None:
                self._host.about_to_write(leaf)

    def _traits_of(self, func: Any) -> OpTraits:
        found = self._traits.get(id(func))
        if found is None:
            found = self._traits[id(func)] = op_traits(func)
        return found

    def end(self, call: Call, out: Any) -> None:
        """Notes the results of an operator that ran."""
        if call.traits.reshapes:
            if call.read and isinstance(out, torch.Tensor):  # else it is on the host
                self._resized(call, out)
            return
        note, known = call.note, call.slots
        outputs: list[tuple[int, Ref]] = []
        made: list[Slot] = []
        for position, tensor in enumerate((out,) if isinstance(out, torch.Tensor) else leaves(out)):
            layout = next(call.known_outputs, None) or call.output(tensor)
            slot = self._find(tensor) if layout is not None else None
            if slot is None and call.traits.random and isinstance(tensor, torch.Tensor):
                slot = self._seeds.output(tensor)
            if slot is None or layout is None:
                if isinstance(tensor, torch.Tensor) and tensor.is_nested:
                    self.lose(tensor, NOT_PLAIN)  # its parts are plain tensors
                continue
            if slot in known and not call.enlarges(layout, slot):
                continue
            if slot not in made:
                made.append(slot)
                if (
                    self._by_address
                    and not (slot.buffer.unknown or slot in known)
                    and slot.buffer.nbytes
                ):
                    self._fault = f"{call.note.func} returned a storage that it does not take"
                slot.buffer, slot.writer = Buffer(0), note
            slot.buffer.nbytes = max(slot.buffer.nbytes, layout.end)
            outputs.append((position, Ref(layout, slot.buffer)))
        if not (outputs or call.changed):
            return  # a view, or an operator that writes nothing
        if call.unknown:
            for slot in (*made, *call.changed):
                make_unknown(slot, call.unknown)
            return
        if call.assumed:
            for slot in (*made, *call.changed):
                slot.buffer.assumed = call.assumed
        note.outputs = tuple(outputs)
        if call.changed:
            call.changed = [slot for slot in call.changed if slot not in made]
            self._overwrite(call)
        for buffer in call.read:
            buffer.read_by(note)

    def repeat(
        self, call: RepeatedNote, tensors: Sequence[torch.Tensor], out: torch.Tensor
    ) -> None:
        """Notes an operator that made ``out`` of ``tensors``, as ``begin`` and ``end`` do."""
        self._host.let_go()
        self._count_one()
        find = self._find
        read: list[Buffer | HostTensor] = []
        before: list[Note] = []
        unknown = assumed = ""
        for tensor in tensors:
            slot = find(tensor)
            if slot is None:
                read.append(self._host.noted(tensor))
                continue
            buffer, writer = slot.buffer, slot.writer
            if writer is not None and not writer.done:
                before.append(writer)
            unknown = buffer.unknown or unknown
            assumed = assumed or buffer.assumed
            read.append(buffer)
        made = find(out)
        if made is None:
            return
        if unknown:
            make_unknown(made, unknown)
            return
        made.buffer = result = Buffer(call.output.end)
        result.assumed = assumed
        made.writer = note = RepeatedRun(self._count, call, read, tuple(before), result)
        for one in read:
            if type(one) is Buffer:
                one.read_by(note)

    def _count_one(self) -> None:
        self._count += 1
        if self._count % self._most == 0:
            self.forget(f"more than {self._most} operators ran since it was computed")

    def renew(self, call: Call, tensor: torch.Tensor) -> None:
        """Records that an operator returns a tensor in the memory of an argument that it let go."""
        slot = self._find(tensor)
        if slot is not None and slot in call.slots:
            call.slots.discard(slot)
            make_unknown(slot, _REUSED)

    def _noted(self, arg: Any, call: Call) -> Any:
        """Returns an argument without tensors of the device; ``call`` learns what it reads."""
        if isinstance(arg, torch.Tensor):
            layout = next(call.known_inputs, None) or call.input(arg)
            if layout is None:
                call.unknown = NOT_PLAIN
                return None
            if call.traits.likes:
                return layout
            slot = self._find(arg)
            if slot is None:
                slot = self._seeds.find(arg)
            if slot is None:
                return self._host.noted(arg)
            call.slots.add(slot)
            buffer = slot.buffer
            self._will_read(slot, call)
            return Ref(layout, buffer)
        if type(arg) in (list, tuple):
            return type(arg)([self._noted(item, call) for item in arg])
        return arg

    def _will_read(self, slot: Slot, call: Call) -> None:
        """Records that an operator reads a storage."""
        buffer, writer = slot.buffer, slot.writer
        if writer is not None and not writer.done:
            call.before.append(writer)
        if buffer.unknown:
            call.unknown = buffer.unknown
        call.assumed = call.assumed or buffer.assumed
        call.read.append(buffer)

    def _overwrite(self, call: Call) -> None:
        """Makes the note the writer of what its operator changes, after all earlier readers."""
        written, readers = [], []
        for slot in call.changed:
            buffer = slot.buffer
            written.append(buffer)
            readers += [reader for reader in buffer.readers if reader() is not None]
            buffer.readers = ()
            slot.writer = call.note
        call.note.written, call.note.readers = tuple(written), tuple(readers)

    def _start_afresh(self, traits: OpTraits, args: Any, kwargs: Any) -> None:
        """Gives a new buffer to each storage that the operator fills from end to end."""
        used = Counter(self._slots((args, kwargs)))
        for target in leaves(given(traits.filled, args, kwargs)):
            layout = layout_of(target)
            slot = self._find(target) if layout is not None else None
            if slot is None or layout is None or used[slot] > 1:
                continue  # it is on the host, or it also reads what it fills
            if layout.fills(slot.buffer.nbytes):
                slot.buffer, slot.writer = Buffer(max(slot.buffer.nbytes, layout.end)), None

    def _changed(self, traits: OpTraits, args: Any, kwargs: Any) -> list[Slot]:
        """Returns the slots that the operator changes, each once."""
        return [*dict.fromkeys(self._slots(given(traits.changed, args, kwargs)))]

    def _slots(self, tree: Any) -> Iterator[Slot]:
        for leaf in leaves(tree):
            slot = self._find(leaf) if is_plain(leaf) else None
            if slot is not None:
                yield slot
