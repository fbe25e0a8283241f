"""PyTorch's own list of its operators, ``native_functions.yaml``, which each torch comes with.

It says which operators have a kernel for CUDA, which run one C++ function on the CPU and on CUDA,
which C++ code composes of others, and which give views. Its code is generated from the file, so the
facts are those of the installed release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import torch

_FILE: Final = "torchgen/packaged/ATen/native/native_functions.yaml"
_FUNCTION: Final = re.compile(r"- func: ([\w.]+)\((.*)")
#: A result that is an argument's memory and is not written: ``Tensor(a)``, ``Tensor(a)[]``.
_VIEW: Final = re.compile(r"^\(?Tensor\([a-z]\)")
_DELEGATE: Final = "structured_delegate:"
#: The loop of an elementwise function whose kernels are generated.
_LOOP: Final = "ufunc_inner_loop:"
#: A kernel and its keys: ``CPU, CUDA: add_stub``.
_KERNEL: Final = re.compile(r"^([A-Z]\w*(?:, *\w+)*): *\w+$")
_COMPOSITE: Final = "CompositeImplicitAutograd"


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """What the file says of one overload, ``add.Tensor``."""

    on_cuda: bool
    """True if it has a kernel for CUDA, or shares the one of the overload that it delegates to."""
    shared: bool
    """True if that is the C++ function that runs on the CPU too."""
    composite: bool
    """True if C++ code composes it of other operators, on every device."""
    view: bool
    """True if its results are views of an argument."""


def kernels_of_cuda() -> Iterator[str]:
    """Yields the operators of ``aten`` with a kernel on CUDA: ``add.Tensor``."""
    return (name for name, function in native_functions().items() if function.on_cuda)


@cache
def native_functions() -> Mapping[str, NativeFunction]:
    """Returns what the file says, by overload; it is read once in a process."""
    text = (Path(torch.__file__).parents[1] / _FILE).read_text("utf-8")
    blocks = dict(_blocks(text))
    kernels = {name: _kernels(lines) for name, (_, lines) in blocks.items()}
    return MappingProxyType(
        {name: _described(name, schema, blocks, kernels) for name, (schema, _) in blocks.items()}
    )


_Block = tuple[str, list[str]]


def _blocks(text: str) -> Iterator[tuple[str, _Block]]:
    """Yields the name of each function, its schema behind the name, and its other lines."""
    block: _Block = ("", [])
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            block = (found[2], [])
            yield found[1], block
        elif not line.lstrip().startswith("#"):
            block[1].append(line.strip())


def _kernels(lines: list[str]) -> list[list[str]]:
    """Returns the keys of each kernel: ``[["CPU", "CUDA"], ["MPS"]]``."""
    found = filter(None, map(_KERNEL.match, lines))
    loops = [["CPU", "CUDA"] for line in lines if line.startswith(_LOOP)]
    return [[key.strip() for key in one[1].split(",")] for one in found] + loops


def _described(
    name: str, schema: str, blocks: Mapping[str, _Block], kernels: Mapping[str, list[list[str]]]
) -> NativeFunction:
    of = next((one for one in blocks[name][1] if one.startswith(_DELEGATE)), "")
    own = kernels[name] + kernels.get(of.removeprefix(_DELEGATE).strip(), [])
    return NativeFunction(
        on_cuda=any("CUDA" in keys for keys in own),
        shared=any("CPU" in keys and "CUDA" in keys for keys in own),
        composite=not own or any(_COMPOSITE in keys for keys in own),
        view=_VIEW.match(schema.rpartition(") -> ")[2]) is not None,
    )
