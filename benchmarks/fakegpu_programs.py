"""Runs the ten programs on FakeGPU and on the null device: a section of performance.md.

``python benchmarks/fakegpu_programs.py CHECKOUT COMMIT`` with a build of PyTorch for CUDA 12, for
which FakeGPU's libraries are made, and a checkout of github:FanBB2333/FakeGPU, built by CMake in
its folder ``build``. Results go to ``benchmarks/results/fakegpu_programs.json``.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

RESULTS: Final = Path(__file__).parent / "results" / "fakegpu_programs.json"
#: Host memory of a process, and its seconds.
_LIMIT: Final = 14 << 30
_PATIENCE: Final = 300
_ROUNDS: Final = 3
_FACTORIES: Final = ("empty", "full", "zeros", "ones", "arange")
_MODULES: Final = ("Linear", "LayerNorm", "Embedding", "TransformerEncoderLayer")

#: A program → what it holds at one moment, whoever counts: tensors of a line, and their bytes.
HELD: Final = MappingProxyType(
    {
        "attention": (
            "softmax's backward pass reads the weights and their gradient, and writes a third"
            " matrix; q, k and v",
            "3*8*1024**2*4 + 3*8*1024*64*4",
        ),
        "multihead": (
            "the same three matrices of 4 heads; q, k and v",
            "3*4*4*512**2*4 + 3*4*512*256*4",
        ),
        "checkpointed": (
            "when the first layer is computed again: all weights, gradients of seven layers, the"
            " two hidden tensors around GELU, the layer's input and its output's gradient",
            "(8 + 7)*(2*512*2048 + 2048 + 512)*4 + 2*2048*2048*4 + 2*2048*512*4",
        ),
        "language_head": (
            "log_softmax's backward pass reads its output and its gradient, and writes the"
            " gradient of the logits; hidden, weight, labels and two numbers",
            "3*4096*32000*4 + 4096*1024*4 + 32000*1024*4 + 4096*8 + 2*4",
        ),
    }
)

HEAD: Final = """
## Ten programs on FakeGPU

The same programs with FakeGPU (github:FanBB2333/FakeGPU, {commit}) as an H100, with PyTorch
{torch}. Its `fakecuda` patches PyTorch and computes on the CPU; `native` puts libraries of its own
in front of CUDA's, as null does. `fakecuda` follows no default device, so each tensor names its own
here. Each program has a process of its own, and FakeGPU, which keeps the tensors in the host's
memory, {limit} GiB of that. Milliseconds are the processor's, the least of {rounds}
rounds, on a machine that did other work too, so read the ratios alone; the
peak is of the requested bytes in `torch.cuda.memory_stats()`, above those before the round.
`benchmarks/fakegpu_programs.py` writes the table.

| program | null ms | fakecuda ms | native ms | peak of null | fakecuda's | native's |
|---|---:|---:|---:|---:|---:|---:|
"""


class OnDevice:
    """A module of torch whose functions make tensors on the device."""

    def __init__(self, module: Any, names: tuple[str, ...]) -> None:
        self._module, self._names = module, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        return partial(found, device="cuda") if name in self._names else found


def answer(name: str) -> None:
    """Prints the least seconds and the peak of a program in this process."""
    import ten_programs
    import torch

    vars(ten_programs).update(
        torch=OnDevice(torch, _FACTORIES), nn=OnDevice(torch.nn, (*_MODULES, "MultiheadAttention"))
    )
    seconds, peak = [], 0
    for _ in range(_ROUNDS):
        before = torch.cuda.memory_stats().get("requested_bytes.all.current", 0)
        torch.cuda.reset_peak_memory_stats()
        began = time.process_time()
        ten_programs.PROGRAMS[name]()
        seconds.append(time.process_time() - began)
        peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    print(json.dumps({"seconds": round(min(seconds), 6), "peak_bytes": peak}), flush=True)


def command(way: str, name: str) -> list[str]:
    """Returns the command that answers for a program."""
    program = [str(Path(__file__).resolve()), way, name]
    if way == "null":
        return ["-m", "pytest_attnmem.cli", "run", "--device", "H100", "--", *program]
    if way == "native":
        fakegpu = ["-m", "fakegpu", "--profile", "h100", "--device-count", "1"]
        return [*fakegpu, sys.executable, *program]
    return program


def run(way: str, name: str, checkout: str) -> dict[str, Any]:
    """Returns what a program took, or how it ended."""
    done = subprocess.run(
        ["timeout", str(_PATIENCE), sys.executable, *command(way, name)],
        capture_output=True,
        text=True,
        cwd=checkout,  # it writes a report there
        env={**os.environ, "PYTHONPATH": checkout, "OMP_NUM_THREADS": "1"},
    )
    for line in done.stdout.splitlines():
        if line.startswith('{"seconds"'):
            found: dict[str, Any] = json.loads(line)
            return found
    errors = [line for line in done.stderr.splitlines() if "Error" in line]
    ended = "killed" if done.returncode == 124 else f"exit code {done.returncode}"
    return {"reason": errors[-1].partition("Error: ")[2] if errors else ended}


def section() -> str:
    """Returns the section of the page."""
    found = json.loads(RESULTS.read_text("utf-8"))
    return (
        HEAD.format(limit=_LIMIT >> 30, rounds=_ROUNDS, **found)
        + "\n".join(lines(found["rows"]))
        + "\n"
    )


def lines(rows: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    """Yields the table, and what decides where it differs."""
    for name, row in rows.items():
        times = [f"{one['seconds'] * 1e3:.1f}" if "seconds" in one else "" for one in row.values()]
        null = row["null"]["peak_bytes"]
        peaks = [cell(row[way], null) for way in ("fakecuda", "native")]
        yield f"| `{name}` | {' | '.join([*times, f'{null:,}', *peaks])} |"
    yield "\nArithmetic decides where `fakecuda` has less, by what a program holds at one moment:\n"
    for name, (what, formula) in HELD.items():
        yield f"- `{name}`, at least {held(name):,}: {what}; `{formula}`."
    yield (
        "\nOf a backward pass it counts what the program reads. In `encoder` it has more: dropout"
        "\nof the CPU keeps a mask of floats, and that of CUDA one of bytes."
    )


def cell(one: dict[str, Any], null: int) -> str:
    """Returns a peak beside null's, or how the process ended."""
    if "peak_bytes" not in one:
        return "the host's memory" if null > _LIMIT else f"`{one['reason']}`"
    return "=" if one["peak_bytes"] == null else f"{one['peak_bytes']:,}"


def held(name: str) -> int:
    """Returns the bytes of a formula of :data:`HELD`."""
    return int(eval(HELD[name][1]))


def main(checkout: str, commit: str) -> None:
    """Runs everything and writes the results."""
    from ten_programs import PROGRAMS
    from torch import __version__

    ways = ("null", "fakecuda", "native")
    rows = {}
    for name in PROGRAMS:
        rows[name] = {way: run(way, name, checkout) for way in ways}
        print(name, rows[name], flush=True)
    text = json.dumps({"commit": commit, "torch": __version__, "rows": rows}, indent=1)
    RESULTS.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1] in ("null", "native", "fakecuda"):
        if sys.argv[1] != "null":
            resource.setrlimit(resource.RLIMIT_DATA, (_LIMIT, _LIMIT))
        if sys.argv[1] == "fakecuda":
            import fakegpu  # type: ignore[import-not-found]

            fakegpu.init(runtime="fakecuda", profile="h100", device_count=1)
        answer(sys.argv[2])
    else:
        main(*sys.argv[1:])
