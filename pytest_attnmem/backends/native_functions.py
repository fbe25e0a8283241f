"""PyTorch's own list of its operators, ``native_functions.yaml``, which each torch comes with.

It says which operators have a kernel for CUDA. PyTorch's code is generated from the file, so the
facts are those of the installed release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch

_FILE: Final = "torchgen/packaged/ATen/native/native_functions.yaml"
_FUNCTION: Final = re.compile(r"^- func: ([\w.]+)\(.*$", re.MULTILINE)
_DELEGATE: Final = re.compile(r"^ *structured_delegate: *([\w.]+)", re.MULTILINE)
#: A kernel and its keys, ``CPU, CUDA: add_stub``, or the loop of a function whose kernels are
#: generated, for both.
_ON_CUDA: Final = re.compile(
    r"^ *(?:(?:\w+, *)*CUDA(?:, *\w+)*: *\w+ *$|ufunc_inner_loop:)", re.MULTILINE
)


def kernels_of_cuda() -> Iterator[str]:
    """Yields the operators of ``aten`` with a kernel on CUDA, ``add.Tensor``.

    An overload may share the kernel of another that it delegates to.
    """
    text = (Path(torch.__file__).parents[1] / _FILE).read_text("utf-8")
    _, *parts = _FUNCTION.split(text)
    lines = dict(zip(parts[::2], parts[1::2], strict=True))
    own = {name for name, one in lines.items() if _ON_CUDA.search(one)}
    for name, one in lines.items():
        of = _DELEGATE.search(one)
        if name in own or (of is not None and of[1] in own):
            yield name
