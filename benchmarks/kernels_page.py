"""Write ``docs/kernels.md`` from the kernels themselves: ``python benchmarks/kernels_page.py``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from pytest_attnmem.interpolation import through
from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.model import MemoryModel
from pytest_attnmem.shape import AttentionShape, Source, gather
from pytest_attnmem.units import format_size

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
SIZES = {"B": 1, "H": 8, "Hkv": 8, "d": 64, "dtype": "float16"}
N = 16384
LENGTHS = (4096, 6144, 8192, 12288, 16384)  # from which a degree can be told

HEAD = f"""# The kernels

Reference implementations to test against, each a file with the attention and its memory model,
proved equal to the form derived from its code and to what is measured. Written by
`python benchmarks/kernels_page.py`.

`MODEL.forward` is the call under `no_grad`, `MODEL.training` the call and `.sum().backward()`; each
is a budget. Peaks are of the program's tensors in float16 with B=1, H=8, N=M={N}, d=dv=64, without
scratch inside kernels; inputs are not counted. *Grows* is the power of N that the forward's and the
training's peak grow with, block sizes being what they are by default.

"""

TAIL = """
Not in the table, for they are called otherwise: `decode.attention` (a step with a key/value cache,
static or growing), `ring.attention` (a part of the sequence on each process of a group; peaks are
those of one rank, `R` the number of ranks) and `flex.attention` (`flex_attention`, compiled; run
dense it is refused). Their models are `decode.STATIC`, `decode.GROWING`, `ring.MODEL` and
`flex.MODEL`.
"""


def render() -> str:
    """The page."""
    rows = [
        "| call | takes | grows | forward | forward and backward |",
        "|---|---|---|---|---|",
        *map(_row, KERNELS),
    ]
    papers = [f"- `{_path(kernel)}`: {_summary(kernel)}" for kernel in KERNELS]
    return HEAD + "\n".join([*rows, "", "## What each is", "", *papers]) + "\n" + TAIL


def _row(kernel: Kernel) -> str:
    models = (kernel.model.forward, kernel.model.training)
    grows = ", ".join(_power(model, kernel) for model in models)
    sizes = " | ".join(format_size(model.peak(_shape(kernel, N))) for model in models)
    options = [*inspect.signature(kernel.attention).parameters][3:]
    listed = ", ".join(f"`{name}`" for name in options)
    return f"| `{_path(kernel)}` | {listed} | {grows} | {sizes} |"


def _path(kernel: Kernel) -> str:
    return f"{kernel.attention.__module__.rpartition('.')[2]}.{kernel.attention.__name__}"


def _summary(kernel: Kernel) -> str:
    text = inspect.getdoc(kernel.attention) or ""
    first = " ".join(text.partition("\n\n")[0].split())
    return re.sub(r"(\s*q \[.*|:$)", "", first)


def _power(model: MemoryModel, kernel: Kernel) -> str:
    peaks = [model.peak(_shape(kernel, length)) for length in LENGTHS]
    degree = through("N", LENGTHS, peaks).degree("N")  # type: ignore[arg-type]
    return {0: "1", 1: "N", 2: "N²"}.get(degree, "less than N²")


def _shape(kernel: Kernel, length: int) -> AttentionShape:
    causal = int(False not in kernel.causal)
    known = {**SIZES, "N": length, "M": length, "dv": 64, "causal": causal}
    return gather([Source("the page", known)])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
