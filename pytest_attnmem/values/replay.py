"""Runs notes on the host, in the order of the program, each at most once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..errors import CannotCompute, UnknownValue
from .compute import compute_there, pristine_dispatch
from .host_memory import require_memory
from .host_tensor import HostTensor
from .notes import Layout, Note, Ref, leaves
from .op_traits import OpTraits, op_traits
from .work import Work, WorkLeft, work, work_of


class Replay:
    """Runs notes; the work of one read has a limit in floating-point operations."""

    def __init__(self, limit: int) -> None:
        self._ops: dict[int, _HostOp] = {}  # by id: the hash of an operator is slow
        self.limit = limit
        self.left = WorkLeft()
        self.notes_run = 0

    def finish(self, last: Note) -> None:
        """Runs a note and all notes that it depends on.

        The results of a note for which the host lacks the memory are unknown.

        Raises:
            UnknownValue: they need more work than the limit; none of them was run.
        """
        waiting = self._needed(last)
        for note in waiting:
            note.prepare()
        self._allow(sum([self._op(note.func).work_of(note) for note in waiting]))
        self.left.allow(self.limit)
        with pristine_dispatch():
            for note in waiting:
                self._run(note, self._op(note.func))

    def _op(self, func: Any) -> _HostOp:
        found = self._ops.get(id(func))
        if found is None:
            found = self._ops[id(func)] = _HostOp(func, op_traits(func), work_of(func))
        return found

    def afford(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises UnknownValue if an operator, computed at once, needs more work than the limit.

        So it does if the operator needs more memory than the host has.
        """
        self._allow(work(func, args, kwargs, ()))
        require_memory(func, args, kwargs, ())

    def _allow(self, total: int) -> None:
        if total > self.limit:
            raise UnknownValue(
                f"it takes {total:.1e} floating-point operations, and --attnmem-values-limit is"
                f" {self.limit:.1e}"
            )

    def _needed(self, last: Note) -> list[Note]:
        """Returns the notes that must run up to the last one, in the order of the program."""
        found, waiting = {last.number: last}, [last]
        while waiting:
            note = waiting.pop()
            for other in (*note.before, *[reader() for reader in note.readers]):
                if other is not None and not other.done and other.number not in found:
                    found[other.number] = other
                    waiting.append(other)
        return [found[number] for number in sorted(found)]

    def _run(self, note: Note, op: _HostOp) -> None:
        self.notes_run += 1
        try:
            made = [ref for _, ref in note.outputs]
            require_memory(note.func, note.args, note.kwargs, made)
            for buffer in note.written:
                if buffer.shared and buffer.contents is not None:
                    buffer.contents, buffer.shared = buffer.contents.clone(), False
            args, kwargs = _filled(note.args), {k: _filled(v) for k, v in note.kwargs.items()}
            outputs = [*leaves(_with_random(note, args, kwargs))]
            for position, ref in note.outputs:
                _store(ref, outputs[position] if position < len(outputs) else None)
            if op.traits.empty:
                for _, ref in note.outputs:  # memory that no operator has written
                    view(ref).fill_(unwritten(ref.layout.dtype))
        except (CannotCompute, UnknownValue) as error:
            note.finish(str(error))
        else:
            note.finish()


class _HostOp(NamedTuple):
    """What is known of an operator before it runs."""

    func: Any
    """The operator, which lives as long as its id is in use here."""
    traits: OpTraits
    work: Work

    def work_of(self, note: Note) -> int:
        """Returns the floating-point operations of a note of it."""
        return self.work(note.args, note.kwargs, [ref for _, ref in note.outputs])


def view(ref: Ref) -> torch.Tensor:
    """Returns the tensor on the host that a reference stands for.

    Raises:
        UnknownValue: the contents are not known.
    """
    buffer, layout = ref.buffer, ref.layout
    if buffer.unknown:
        raise UnknownValue(buffer.unknown)
    if layout.end > buffer.nbytes:
        raise UnknownValue("its storage grew")
    made = torch.empty(0, dtype=layout.dtype, device="cpu")
    made.set_(buffer.on_host().untyped_storage(), layout.offset, layout.shape, layout.stride)
    if layout.conjugate:
        made = torch._conj(made)
    return torch._neg_view(made) if layout.negative else made


def _filled(arg: Any) -> Any:
    """Returns an argument with tensors of the host in the place of references."""
    if type(arg) is Ref:
        return view(arg)
    if type(arg) is Layout:
        return torch.empty_strided(arg.shape, arg.stride, dtype=arg.dtype, device="cpu")
    if type(arg) is HostTensor:
        if arg.has_changed:
            raise UnknownValue("a tensor of the host has changed since the device read it")
        return arg.tensor
    if type(arg) in (tuple, list):
        return type(arg)([_filled(item) for item in arg])
    return arg


def _with_random(note: Note, args: Any, kwargs: Any) -> Any:
    """Runs the operator; its random numbers depend on the state of its generator."""
    if note.random is None:
        return compute_there(note.func, args, kwargs)
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(note.random.host_seed)
    try:
        return compute_there(note.func, args, kwargs)
    finally:
        generator.set_state(before)


def _store(ref: Ref, values: Any) -> None:
    """Keeps the result of an operator as the contents of a new storage."""
    buffer = ref.buffer
    whole = isinstance(values, torch.Tensor) and _is_same(ref, values)
    if buffer.contents is None and whole:
        storage = values.untyped_storage()
        if storage.nbytes() >= buffer.nbytes:
            buffer.contents = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
            return
    if isinstance(values, torch.Tensor) and values.shape == ref.shape:
        view(ref).copy_(values)
    else:
        buffer.unknown = "the host computes another result"


def _is_same(ref: Ref, values: torch.Tensor) -> bool:
    layout = ref.layout
    return (
        values.dtype == layout.dtype
        and values.shape == layout.shape
        and values.stride() == layout.stride
        and values.storage_offset() == layout.offset
        and not (values.is_conj() or values.is_neg() or layout.conjugate or layout.negative)
    )


def unwritten(dtype: torch.dtype) -> float:
    """Returns what stands for a value that no operator has written: NaN or the largest integer."""
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max
