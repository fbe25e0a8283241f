"""Asks an installed cuDNN for its plans of convolutions: a program of its own, without a device.

It is run by its path and imports no other file of the package. Arguments: the null runtime, the
libraries that cuDNN needs, and last cuDNN. It writes cuDNN's version, then an answer for each line
that it reads: ``{"workspace": 512}``, or ``{"refused": "cuDNN finds no plan"}``.

The questions are those of PyTorch (``aten/src/ATen/native/cudnn/Conv_v8.cpp``): the engines that
cuDNN ranks, without those that the program's settings exclude; the first that can be built is used.
The numbers are those of cuDNN's header ``cudnn_graph.h``.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_DATA_TYPE, _INT64, _FLOAT, _DOUBLE = 1, 3, 4, 5
_MODE, _HEURISTIC, _NOTE, _DESCRIPTOR = 7, 8, 11, 15
_FORMATS = (
    *((_DATA_TYPE, "i"), (_INT64, "q"), (_FLOAT, "f"), (_DOUBLE, "d")),
    *((_MODE, "i"), (_HEURISTIC, "i"), (_NOTE, "i")),
)
_DATA_TYPES = (("float32", 0), ("float64", 1), ("float16", 2), ("bfloat16", 9))
#: Kinds of descriptors.
_CONVOLUTION, _ENGINE, _CONFIG, _RANKING, _PLAN, _GRAPH, _TENSOR = 1, 2, 3, 4, 5, 15, 17
#: Kinds of operations, and the attributes of input, weight, output, convolution, alpha and beta.
_OPERATIONS = (
    ("forward", 10, (704, 703, 705, 702, 700, 701)),
    ("weight", 11, (716, 715, 717, 714, 712, 713)),
    ("input", 12, (710, 709, 711, 708, 706, 707)),
)
_TENSOR_CORE, _DOWN_CONVERTS, _NONDETERMINISTIC = 0, 1, 4
_INSTANT, _FALLBACK = 0, 2
_NOTES = 32
_NOT_COMPILED = 4001


class Refused(Exception):
    """An answer that is no number."""


class Descriptor:
    """A descriptor of cuDNN's backend API."""

    def __init__(self, cudnn: ctypes.CDLL, kind: int) -> None:
        self.cudnn = cudnn
        self.address = ctypes.c_void_p()
        if cudnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.address)):
            raise Refused("cuDNN knows no such question")

    def set(self, name: int, kind: int, *values: Any) -> None:
        """Sets an attribute to one or more values of a kind."""
        if kind == _DESCRIPTOR:
            pointers = [value.address.value for value in values]
            given: Any = (ctypes.c_void_p * len(values))(*pointers)
        else:
            letter = dict(_FORMATS)[kind]
            given = ctypes.create_string_buffer(struct.pack(f"={len(values)}{letter}", *values))
        count = ctypes.c_int64(len(values))
        if self.cudnn.cudnnBackendSetAttribute(self.address, name, kind, count, given):
            raise Refused("cuDNN does not take this convolution")

    def finalize(self) -> bool:
        """Returns True if cuDNN accepts the descriptor.

        Raises:
            Refused: cuDNN fails to compile a kernel. With a device it would, and use that kernel.
        """
        status = self.cudnn.cudnnBackendFinalize(self.address)
        if status == _NOT_COMPILED:
            raise Refused("cuDNN cannot compile its kernels here")
        return not status

    def get(self, name: int, kind: int, most: int, into: Any) -> int:
        """Reads at most so many values of an attribute; returns their number."""
        found = ctypes.c_int64()
        count = ctypes.c_int64(most)
        status = self.cudnn.cudnnBackendGetAttribute(
            self.address, name, kind, count, ctypes.byref(found), into
        )
        return 0 if status else found.value

    def __del__(self) -> None:
        self.cudnn.cudnnBackendDestroyDescriptor(self.address)


class Planner:
    """cuDNN, as the null runtime shows it to a program."""

    def __init__(self, runtime: str, libraries: Iterable[str]) -> None:
        self._cudnn = ctypes.CDLL(runtime)
        for path in libraries:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        library.cudnnGetVersion.restype = ctypes.c_size_t
        self.version = int(library.cudnnGetVersion())

    def workspace(self, asked: dict[str, Any]) -> int:
        """Returns the bytes of the workspace of the plan that PyTorch would use.

        Raises:
            Refused: there is none, or it is not certain.
        """
        graph = self._graph(asked)
        for config in self._ranked(graph):
            notes = self._notes(config)
            if not _excluded(notes, asked):
                plan = self._new(_PLAN)
                plan.set(401, _DESCRIPTOR, config)
                if plan.finalize():
                    self._check_calls()
                    found = ctypes.c_int64()
                    plan.get(402, _INT64, 1, ctypes.byref(found))
                    return found.value
        raise Refused("cuDNN finds no plan")

    def _new(self, kind: int) -> Descriptor:
        return Descriptor(self._cudnn, kind)

    def _finalized(self, descriptor: Descriptor) -> Descriptor:
        if not descriptor.finalize():
            raise Refused("cuDNN does not take this convolution")
        return descriptor

    def _graph(self, asked: dict[str, Any]) -> Descriptor:
        dtype = dict(_DATA_TYPES)[asked["dtype"]]
        tensors = [self._tensor(dtype, name, *asked[name]) for name in "xwy"]
        double = asked["dtype"] == "float64"
        convolution = self._new(_CONVOLUTION)
        convolution.set(100, _DATA_TYPE, int(double))  # halves are added up in float32
        convolution.set(101, _MODE, 1)  # cross-correlation
        convolution.set(106, _INT64, len(asked["stride"]))
        sizes = ((103, "stride"), (105, "padding"), (104, "padding"), (102, "dilation"))
        for name, values in sizes:
            convolution.set(name, _INT64, *asked[values])
        ((kind, names),) = [(kind, names) for op, kind, names in _OPERATIONS if op == asked["of"]]
        operation = self._new(kind)
        parts = (*tensors, self._finalized(convolution))
        for name, part in zip(names[:4], parts, strict=True):
            operation.set(name, _DESCRIPTOR, part)
        for name, factor in zip(names[4:], (1.0, 0.0), strict=True):
            operation.set(name, _DOUBLE if double else _FLOAT, factor)
        graph = self._new(_GRAPH)
        graph.set(801, _DESCRIPTOR, self._finalized(operation))
        return self._finalized(graph)

    def _tensor(
        self, dtype: int, name: str, shape: list[int], strides: list[int], alignment: int
    ) -> Descriptor:
        tensor = self._new(_TENSOR)
        tensor.set(901, _DATA_TYPE, dtype)
        tensor.set(902, _INT64, *shape)
        tensor.set(903, _INT64, *strides)
        tensor.set(906, _INT64, ord(name))
        tensor.set(900, _INT64, alignment)
        return self._finalized(tensor)

    def _ranked(self, graph: Descriptor) -> Iterator[Descriptor]:
        """Yields the configurations of engines in cuDNN's order, and then its last resorts."""
        for mode in (_INSTANT, _FALLBACK):
            ranking = self._new(_RANKING)
            ranking.set(201, _DESCRIPTOR, graph)
            ranking.set(200, _HEURISTIC, mode)
            if ranking.finalize():
                count = ranking.get(202, _DESCRIPTOR, 0, None)
                configs = [self._new(_CONFIG) for _ in range(count)]
                addresses = (ctypes.c_void_p * count)(*(each.address.value for each in configs))
                yield from configs[: ranking.get(202, _DESCRIPTOR, count, addresses)]

    def _notes(self, config: Descriptor) -> set[int]:
        """Returns cuDNN's notes on the numerics of a configuration's engine."""
        engine = self._new(_ENGINE)
        config.get(300, _DESCRIPTOR, 1, ctypes.byref(engine.address))
        notes = (ctypes.c_int * _NOTES)()
        return set(notes[: engine.get(1303, _NOTE, _NOTES, notes)])

    def _check_calls(self) -> None:
        """Raises Refused if cuDNN asked the runtime for something that it does not know."""
        names = ctypes.create_string_buffer(4096)
        self._cudnn.attnmem_null_unknown(names, len(names))
        if names.value:
            text = names.value.decode(errors="replace").split()[0]
            raise Refused(f"cuDNN calls {text}, which the null device does not know")


def _excluded(notes: set[int], asked: dict[str, Any]) -> bool:
    """Returns True if PyTorch leaves an engine out (``filterEngineConfigs`` of Conv_v8.cpp)."""
    if asked["deterministic"] and _NONDETERMINISTIC in notes:
        return True
    if asked["dtype"] != "float32":
        return False
    return _DOWN_CONVERTS in notes or (not asked["tf32"] and _TENSOR_CORE in notes)


def main(runtime: str, *libraries: str) -> None:
    """Answers questions until the input ends."""
    planner = Planner(runtime, libraries)
    print(json.dumps({"version": planner.version}), flush=True)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"workspace": planner.workspace(json.loads(line))}
        except Refused as refused:
            answer = {"refused": str(refused)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
