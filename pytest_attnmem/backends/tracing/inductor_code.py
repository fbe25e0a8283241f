"""The buffers of compiled code, from the Python that Inductor generated and the allocator's frames.

The code is that of torch 2.13 to 2.15. A buffer is a line of its own, and the kernel that writes it
has the operators of the program above it::

    buf2 = empty_strided_cuda((256, 512), (512, 1), torch.float32)
    # Topologically Sorted Source Nodes: [y], Original ATen: [aten.mul, aten.gelu]
    triton_poi_fused_gelu_mul_0.run(buf0, buf2, 131072, stream=raw_stream0)
"""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ...measurement.held import Held
from .tensor_origin import is_foreign

#: The operator of a buffer if the code does not say which operator writes it.
UNKNOWN: Final = "compiled code"
_MOST = 3
_GRAPH = re.compile(r"# AOT ID: \['(\w+)'\]")
_BUFFER = re.compile(r"\s*(\w+) = empty_strided_\w+\((.*), torch\.(\w+)\)")
_OPERATORS = re.compile(r"\s*# Topologically Sorted Source Nodes: .*Original ATen: \[(.*)\]")
_ALIAS = re.compile(r"\s*(\w+) = (?:reinterpret_tensor\(|alloc_from_pool\()?(\w+)\b(?!\.|\()")
_CALL = re.compile(r"\s*[\w.]+ ?=? ?[\w.]*\w\(")
_NO_KERNEL = ("assert_", "copy_if_misaligned(", "empty_strided_", "reinterpret_tensor(", "del ")

#: File, line and function, the innermost first.
Frames = Iterable[tuple[str, int, str]]


class Place(NamedTuple):
    """A line of generated code."""

    path: str
    line: int
    graph: str
    """``graph 0_backward``"""


def place_of(frames: Frames) -> Place | None:
    """Returns the line of generated code that allocated; None if the program's own line did."""
    for path, line, _ in frames:
        if not is_foreign(path):
            graph = _graph(path)
            return Place(path, line, graph) if graph else None
    return None


def _graph(path: str) -> str:
    """Returns the name of the graph that a file has the code of; empty for any other file."""
    if not path.endswith(".py"):
        return ""
    found = next(filter(None, map(_GRAPH.match, linecache.getlines(path)[:3])), None)
    return f"graph {found[1]}" if found else ""


def buffer_at(nbytes: int, place: Place) -> Held:
    """Returns the buffer that a line of generated code allocated.

    Its operators are those of the first kernel that has it as an argument: compiled code writes a
    buffer more than once, and reads none that it has not written.
    """
    lines = linecache.getlines(place.path)
    where = f"{os.path.basename(place.path)}:{place.line}"
    text = lines[place.line - 1] if place.line <= len(lines) else ""
    found = _BUFFER.match(text)
    if found is None:
        return Held(nbytes, (), "", UNKNOWN, where, place.graph)
    shape, dtype = _shape(found[2]), found[3]
    op = _operators(found[1], lines[place.line :]) or UNKNOWN
    if shape is None:
        return Held(nbytes, (), "", op, where, place.graph)
    return Held(nbytes, shape, dtype, op, where, place.graph)


def _shape(sizes: str) -> tuple[int, ...] | None:
    """Returns the shape from ``(256, 512), (512, 1)``; None if a size is a symbol."""
    try:
        shape: tuple[int, ...] = ast.literal_eval(f"({sizes})")[0]
    except (ValueError, SyntaxError):
        return None
    return shape


def _operators(name: str, lines: Sequence[str]) -> str:
    """Returns the operators of the first kernel that has a buffer as an argument, or ""."""
    names, operators = {name}, ""
    for line in lines:
        if line.lstrip().startswith("return"):
            break
        comment, alias = _OPERATORS.match(line), _ALIAS.match(line)
        if comment:
            operators = comment[1]
        elif alias and alias[2] in names:
            names.add(alias[1])
        elif _calls_kernel(line) and names.intersection(re.findall(r"\w+", line)):
            return _shown(operators)
    return ""


def _calls_kernel(line: str) -> bool:
    return bool(_CALL.match(line)) and not any(word in line for word in _NO_KERNEL)


def _shown(operators: str) -> str:
    """Returns ``mul, gelu`` from ``aten.mul, aten.gelu``; a long list is cut."""
    names = [*dict.fromkeys(name.strip().removeprefix("aten.") for name in operators.split(","))]
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")
