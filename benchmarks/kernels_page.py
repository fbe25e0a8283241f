"""Writes ``docs/reference/kernels.md`` from the kernels themselves.

Relative times are from ``python benchmarks/kernels.py --json benchmarks/kernels.json``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_attnmem.backends.primed_backend import PrimedBackend, open_primed
from pytest_attnmem.budgets.memory_model import MemoryModel
from pytest_attnmem.formulas.interpolation import through
from pytest_attnmem.kernels import KERNELS, Kernel, decode, ring, sdpa
from pytest_attnmem.measurement.garbage import garbage_frozen
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.symbols.attention_shape import Source, gather
from pytest_attnmem.units import format_size

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "kernels.md"
TIMES: Final = Path(__file__).with_name("kernels.json")
N: Final = 16384
#: The length at which operators are counted, and the length at which kernels are timed.
COUNTED: Final = 1024
TIMED: Final = 2048
RANKS: Final = 8
SIZES: Final = {"B": 1, "H": 8, "Hkv": 8, "d": 64, "dv": 64, "dtype": "float16", "R": RANKS}
#: Three lengths determine the saved bytes, a polynomial of degree 2 in N.
LENGTHS: Final = (64, 128, 192)
#: Kernels that run programs of their own on the device, not operators of PyTorch.
FUSED: Final = ("flash-triton", "sdpa-flash", "sdpa-efficient", "sdpa-cudnn")
#: Attention whose kernels need scratch memory, and the devices of its table.
SDPA: Final = (sdpa.flash, sdpa.efficient, sdpa.cudnn, sdpa.math, scaled_dot_product_attention)
DEVICES: Final = ("A100-80GB", "H100", "B200")
#: A kernel whose loop is over positions: it would run for long at a length where a block is short.
RECURRENT: Final = "linear-recurrent"
#: Operators that do not read the tensor that they write.
OVERWRITES: Final = ("copy_", "fill_", "zero_")
#: Matrix products, and the index of the left matrix among their arguments.
PRODUCTS: Final = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}

HEAD = """# The kernels

These are reference implementations to test against. Each file has the attention and its memory
model; tests prove that the model equals the form derived from the code, and the measured memory.
`python benchmarks/kernels_page.py` writes this page.

## Orders

The table has the orders of growth of a call's memory, forward and backward, and of its time, for
N = M and d = dv, and the paper of the algorithm.

"""

COSTS = f"""
## Costs

Memory is the memory of the program's tensors in float16 with B=1, H=8, N=M={N}, d=dv=64. Inputs
and scratch memory inside kernels are not counted.

- **forward**, **both passes**: the peak of the memory model. `MODEL.forward` is the call under
  `no_grad`, `MODEL.training` the call and `.sum().backward()`; each model is a limit for a budget.
- **saved**: the bytes alive between the passes, simulated: the output, and the tensors that the
  backward pass needs in addition to the inputs.
- **FLOP/byte**: the arithmetic intensity of the forward pass, with N=M={COUNTED}. FLOPs count
  matrix products. Bytes count the transfers if each operator, except views, reads its arguments
  from device memory and writes its results to it; a fused kernel moves q, k, v and the saved
  tensors once.
- **time**: the time divided by the time of `standard.attention`, for the forward pass and for both
  passes, with N=M={TIMED} in float32 on a CPU (threads: {{threads}}, PyTorch {{torch}}), as
  `benchmarks/kernels.py` measured it once. Other machines give other times; a kernel with “-” does
  not run on a CPU.

"""

SCRATCH = """
## `scaled_dot_product_attention` with its scratch memory

The peak of both passes beyond the inputs, requested bytes, simulated, with the same sizes. The last
row is the call without a choice of backend; a sign “-” is a call that the simulation does not know.

"""

OTHERS = f"""
## Kernels with other calls

`decode.attention` takes one step with a key/value cache, static or growing; here N = 1 and
M = {N}. `ring.attention` takes a part of the sequence on each process of a group; peaks are for one
rank of R = {RANKS}.

"""


def render() -> str:
    """Returns the page."""
    primed = open_primed("simulated")
    recorded = json.loads(TIMES.read_text(encoding="utf-8"))
    orders = _table(
        ["call", "options", "memory", "time", "paper"],
        [[f"`{_path(k.attention)}`", _options(k), *_order(k.attention)] for k in KERNELS],
    )
    with garbage_frozen():
        costs = _table(
            ["call", "forward", "both passes", "saved", "FLOP/byte", "time"],
            [_costs(kernel, primed, recorded["kernels"]) for kernel in KERNELS],
        )
        scratch = _table(["call", *DEVICES], [_with_scratch(call) for call in SDPA])
    others = _table(
        ["model", "memory", "time", "paper", "forward", "both passes"],
        [
            _other("decode.STATIC", decode.attention, decode.STATIC),
            _other("decode.GROWING", decode.attention, decode.GROWING),
            _other("ring.MODEL", ring.attention, ring.MODEL.forward, ring.MODEL.training),
        ],
    )
    each = "\n".join(f"- `{_path(k.attention)}`: {_summary(k.attention)}" for k in KERNELS)
    explained = COSTS.format(**recorded["environment"])
    tables = f"{HEAD}{orders}\n{explained}{costs}\n{SCRATCH}{scratch}\n{OTHERS}{others}"
    return f"{tables}\n\n## Descriptions\n\n{each}\n"


def _table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _path(attention: Callable[..., Any]) -> str:
    return f"{attention.__module__.rpartition('.')[2]}.{attention.__name__}"


def _options(kernel: Kernel) -> str:
    return ", ".join(f"`{name}`" for name in [*inspect.signature(kernel.attention).parameters][3:])


def _summary(attention: Callable[..., Any]) -> str:
    text = inspect.getdoc(attention) or ""
    first = " ".join(text.partition("\n\n")[0].split())
    return re.sub(r":?\s*q \[.*", "", first)


def _order(attention: Callable[..., Any]) -> list[str]:
    """Returns memory, time and paper from their line in the docstring."""
    line = re.search(
        r"^(O\(.+?\)) memory(.*), (O\(.+\)) time: (.+, \d{4}) \(arXiv (\d{4}\.\d{5})\)",
        inspect.getdoc(attention) or "",
        re.MULTILINE,
    )
    if line is None:
        raise ValueError(f"{_path(attention)} has no line of its order and paper")
    memory, more, time, paper, number = line.groups()
    return [memory + more, time, f"[{paper}](https://arxiv.org/abs/{number})"]


def _costs(kernel: Kernel, primed: PrimedBackend, times: dict[str, dict[str, float]]) -> list[str]:
    shape = gather([Source("the page", {**SIZES, "N": N, "causal": int(kernel.always_causal)})])
    peaks = [model.peak(shape) for model in (kernel.model.forward, kernel.model.training)]
    saved = _saved(kernel, primed)
    flops, moved = _fused(saved) if kernel.name in FUSED else _work(kernel)
    time = times.get(kernel.name)
    ratios = f"{time['forward']:.2f}, {time['training']:.2f}" if time else "-"
    sizes = map(format_size, (*peaks, saved(N)))
    intensity = flops / moved
    digits = f"{intensity:.0f}" if intensity >= 10 else f"{intensity:.2g}"
    return [f"`{_path(kernel.attention)}`", *sizes, digits, ratios]


def _other(name: str, attention: Callable[..., Any], *models: MemoryModel) -> list[str]:
    known = {**SIZES, "N": 1 if attention is decode.attention else N, "M": N}
    shape = gather([Source("the page", known)])
    peaks = [format_size(model.peak(shape)) for model in models]
    return [f"`{name}`", *_order(attention), *peaks, *["-"] * (2 - len(peaks))]


def _saved(kernel: Kernel, primed: PrimedBackend) -> Callable[[int], int]:
    """Returns a function from the length to the bytes alive between forward and backward."""

    def retained(length: int) -> int:
        sizes = {"B": 1, "H": 8, "N": length, "d": 64, "dtype": "float16", "device": "cuda"}

        def forward() -> Tensor:
            return kernel.attention(*qkv(**sizes, requires_grad=True), causal=kernel.always_causal)

        kept = primed.run(forward)[0].retained_bytes
        if kept is None:
            raise ValueError(f"what {kernel.name} saves was not measured")
        return kept

    fit = through("N", LENGTHS, [Fraction(retained(length)) for length in LENGTHS])
    return lambda length: int(fit.value({"N": length}))


def _with_scratch(attention: Callable[..., Any]) -> list[str]:
    """Returns the row of a call: its name, and the bytes of both passes on each device."""

    def peak(device: str) -> str:
        inputs: list[Tensor] = []

        def passes() -> None:
            attention(*inputs).sum().backward()

        def prepared() -> None:
            inputs.extend(
                qkv(B=1, H=8, N=N, d=64, dtype="float16", device="cuda", requires_grad=True)
            )

        primed = open_primed(f"simulated:{device}")
        primed.run(prepared)
        found = primed.run(passes)[0]
        return "-" if found.peak_bytes is None or found.unmeasured else f"{found.peak_bytes:,}"

    name = _path(attention) if attention in SDPA[:-1] else "F.scaled_dot_product_attention"
    return [f"`{name}`", *map(peak, DEVICES)]


def _fused(saved: Callable[[int], int]) -> tuple[int, int]:
    """Returns FLOPs and bytes of a fused kernel: two products, each tensor moved once."""
    return 2 * 2 * 8 * COUNTED**2 * 64, 3 * 8 * COUNTED * 64 * 2 + saved(COUNTED)


def _work(kernel: Kernel) -> tuple[int, int]:
    """Returns FLOPs and bytes of a kernel of operators."""
    if kernel.name != RECURRENT:
        return _counted(kernel, COUNTED)
    counts = zip(*(_counted(kernel, length) for length in LENGTHS), strict=True)
    fits = [through("N", LENGTHS, list(map(Fraction, numbers))) for numbers in counts]
    flops, moved = (int(fit.value({"N": COUNTED})) for fit in fits)
    return flops, moved


def _counted(kernel: Kernel, length: int) -> tuple[int, int]:
    """Returns FLOPs and bytes of a run without data."""
    inputs = [torch.empty(1, 8, length, 64, device="meta", dtype=torch.float16) for _ in "qkv"]
    with torch.no_grad(), Work() as work:
        kernel.attention(*inputs, causal=kernel.always_causal)
    return work.flops, work.moved


class Work(TorchDispatchMode):
    """Counts the FLOPs and the moved bytes of operators."""

    flops = 0
    moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if func.is_view or name == "_unsafe_view" or "empty" in name:
            return result
        read = [x for x in tree_leaves(args) if isinstance(x, Tensor)]
        if name in OVERWRITES or kwargs.get("beta") == 0:
            del read[0]
        written = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        self.moved += sum(map(_bytes, read + written))
        left = PRODUCTS.get(name.rstrip("_"))
        if left is not None:
            self.flops += 2 * result.numel() * args[left].shape[-1]
        return result


def _bytes(x: Tensor) -> int:
    """Returns the bytes of a tensor's elements; expanded elements count once."""
    sizes = zip(x.shape, x.stride(), strict=True)
    return prod(size for size, stride in sizes if stride) * x.element_size()


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
