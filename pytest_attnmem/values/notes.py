"""The notes of a tape: what each operator read and wrote, by range of memory.

A device's storage is a :class:`Slot`. A slot refers to the last note that wrote the storage, a note
refers to the notes that it depends on, and nothing refers back: a note whose results nobody can
read any more is freed with the last storage that depends on it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map


class Buffer:
    """The contents of a storage on the host, made when the first note that writes them is run."""

    __slots__ = (*("assumed", "contents", "nbytes", "readers", "room", "shared", "unknown"),)

    def __init__(self, nbytes: int, unknown: str = "") -> None:
        self.nbytes = nbytes
        self.unknown = unknown
        """The reason why nobody knows the contents; empty if they are known."""
        self.assumed = ""
        """The assumption that the contents rest on; empty if they are what a device would have."""
        self.contents: torch.Tensor | None = None
        """``[nbytes]`` uint8 on the host."""
        self.shared = False
        """True while the contents are memory of the program, which no note may change."""
        self.readers: list[weakref.ref[Note]] | tuple[()] = ()
        """The notes that read these contents; a writer runs after them."""
        self.room = 16
        """The number of readers at which those that are gone are dropped."""

    def on_host(self) -> torch.Tensor:
        """Returns the contents; without values, as of ``torch.empty``, if no note wrote them."""
        if self.contents is None:
            self.contents = torch.empty(self.nbytes, dtype=torch.uint8, device="cpu")
        return self.contents

    def read_by(self, note: Note) -> None:
        """Records that a note reads the contents."""
        readers = self.readers
        if not readers:
            self.readers = [weakref.ref(note)]
            return
        if len(readers) >= self.room:
            readers[:] = [reader for reader in readers if _is_pending(reader())]
            self.room = 2 * len(readers) + 16
        readers.append(weakref.ref(note))


class Slot:
    """A storage of the device."""

    __slots__ = ("buffer", "writer")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.writer: Note | None = None
        """The note that wrote the storage last."""


class Layout:
    """The elements of a tensor in its storage. Calls that are alike share one.

    Among the arguments of a note, it is a tensor whose values the operator does not read:
    ``zeros_like(x)``.
    """

    __slots__ = ("conjugate", "dtype", "end", "negative", "offset", "shape", "stride")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        self.shape = shape = tensor.size()  # the shape of a lazy parameter raises an error
        self.stride = stride = tensor.stride()
        self.offset = int(tensor.storage_offset())
        """The number of elements before the first."""
        self.conjugate = tensor.is_conj()
        self.negative = tensor.is_neg()
        last = sum([(size - 1) * step for size, step in zip(shape, stride, strict=True)])
        self.end = 0 if 0 in shape else (self.offset + last + 1) * self.dtype.itemsize
        """The end of the last element, in bytes from the start of the storage."""

    def moved(self, by: int) -> Layout:
        """Returns the layout of a tensor whose first element is so many elements further on."""
        if not by:
            return self
        made = Layout.__new__(Layout)
        made.dtype, made.shape, made.stride = self.dtype, self.shape, self.stride
        made.conjugate, made.negative = self.conjugate, self.negative
        made.offset = self.offset + by
        made.end = self.end + by * self.dtype.itemsize if self.end else 0
        return made

    def fills(self, nbytes: int) -> bool:
        """Returns True if each of the first so many bytes belongs to an element."""
        if self.offset:
            return False
        count = 1
        for step, size in sorted(zip(self.stride, self.shape, strict=True)):
            if size != 1:
                if step != count:
                    return False
                count *= size
        return count * self.dtype.itemsize >= nbytes


class Ref:
    """A tensor of the device: a layout in a buffer."""

    __slots__ = ("buffer", "layout")

    def __init__(self, layout: Layout, buffer: Buffer) -> None:
        self.buffer = buffer
        self.layout = layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the sizes."""
        return self.layout.shape


class Layouts(NamedTuple):
    """The layouts of the tensors of a call, in their order; None in the place of other results."""

    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout | None, ...]


class Random(NamedTuple):
    """The state of the device's generator before an operator."""

    seed: int
    offset: int

    @property
    def host_seed(self) -> int:
        """Returns the seed of the host's generator that stands for the device's, in 63 bits.

        Mixed, so that it is no seed that a program gives to the host: the device's numbers would be
        those of the host, and a comparison of data with noise would always find them equal.
        """
        state = f"cuda {self.seed} {self.offset}".encode()
        return int.from_bytes(blake2b(state, digest_size=8).digest(), "big") >> 1


class Note:
    """An operator that ran on the device, and is run on the host when its results are needed."""

    __slots__ = (
        *("__weakref__", "args", "before", "done", "func", "kwargs", "number", "outputs"),
        *("random", "readers", "written"),
    )

    def __init__(self, number: int, func: Any, args: Any, kwargs: Any) -> None:
        self.number = number
        """The position in the program; the host runs notes in this order."""
        self.func = func
        self.args = args
        """The arguments, with a :class:`Ref` in the place of each tensor of the device."""
        self.kwargs = kwargs
        self.outputs: tuple[tuple[int, Ref], ...] = ()
        """The tensors with new storages, by position among the outputs."""
        self.written: tuple[Buffer, ...] = ()
        """The buffers that the operator changes in place."""
        self.before: tuple[Note, ...] = ()
        """The notes that wrote what this note reads."""
        self.readers: tuple[weakref.ref[Note], ...] = ()
        """The notes that read what this note changes."""
        self.random: Random | None = None
        self.done = False

    def prepare(self) -> None:
        """Completes the note before it is run."""

    def finish(self, unknown: str = "") -> None:
        """Drops what a note that ran needs no more; its results may be ``unknown``."""
        if unknown:
            for buffer in (*self.written, *(ref.buffer for _, ref in self.outputs)):
                buffer.unknown = unknown
        self.done = True
        self.args, self.kwargs, self.outputs, self.written = (), {}, (), ()
        self.before, self.readers = (), ()


def _is_pending(note: Note | None) -> bool:
    return note is not None and not note.done


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Returns nested tuples, lists and dicts with what the function returns for each leaf."""
    return tree_map(function, tree)


def leaves(tree: Any) -> Iterator[Any]:
    """Yields the leaves of nested tuples, lists and dicts."""
    kind = type(tree)  # a simulated tensor takes long to say of which types it is not
    if issubclass(kind, dict):
        tree = tree.values()
    elif not issubclass(kind, (tuple, list)):
        yield tree
        return
    for item in tree:
        if issubclass(type(item), (tuple, list, dict)):
            yield from leaves(item)
        else:
            yield item
