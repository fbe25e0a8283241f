"""Which operators have a kernel on CUDA, by the file that PyTorch generates its code from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch

_FILE: Final = "torchgen/packaged/ATen/native/native_functions.yaml"
_FUNCTION: Final = re.compile(r"- func: ([\w.]+)\(")
_STRUCTURED: Final = "structured_delegate:"
#: The loop of an elementwise function whose kernels are generated.
_LOOP: Final = "ufunc_inner_loop:"
_CUDA: Final = re.compile(r"\bCUDA\b[^:]*:")


@dataclass(slots=True)
class _Entry:
    """What the file says of a function."""

    has_kernel: bool = False
    delegate: str = ""
    lines: list[str] = field(default_factory=list)


def kernels_of_cuda() -> Iterator[str]:
    """Yields the operators of ``aten`` with a kernel on CUDA: ``add.Tensor``."""
    text = (Path(torch.__file__).parents[1] / _FILE).read_text("utf-8")
    entries = {name: _entry(lines) for name, lines in _blocks(text)}
    for name, entry in entries.items():
        delegate = entries.get(entry.delegate)
        if entry.has_kernel or (delegate is not None and delegate.has_kernel):
            yield name


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the name and the lines of each function."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        found = _FUNCTION.match(line)
        if found:
            if name:
                yield name, lines
            name, lines = found[1], []
        elif not line.lstrip().startswith("#"):
            lines.append(line)
    if name:
        yield name, lines


def _entry(lines: list[str]) -> _Entry:
    """Returns what a function's lines say; keys of the dispatcher stand before a colon."""
    made = _Entry()
    for line in lines:
        text = line.strip()
        if text.startswith(_STRUCTURED):
            made.delegate = text.removeprefix(_STRUCTURED).strip()
        elif text.startswith(_LOOP) or _CUDA.search(text):
            made.has_kernel = True
    return made
