"""The programs of this repository on one device: peaks, retained bytes and drawn numbers.

``python tests/device_gate/programs.py simulated OUT.json [SOURCE …]`` runs them on a stand-in, each
source in children; under the null device's environment, ``null`` runs them there. A row has the
peaks of requested, allocated and reserved bytes, the requested bytes at the end, and the numbers
that the device's generator drew; or a text that says why there is none.
"""

import argparse
import gc
import importlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.extend(
    str(Path(__file__).parents[1] / folder) for folder in ("backends/simulated", "null", "")
)

import torch
from stand_ins import NullDevice, StandIn, in_child

from pytest_attnmem.errors import ProgramRefused

TESTS = Path(__file__).parents[1]

Program = Callable[[], Any]
#: Modules of the tests with ``PROGRAMS``, or ``WORKLOADS``.
MODULES = (
    *("programs", "random_programs", "layout_programs", "mended_programs", "one_element_programs"),
    *("empty_programs", "recurrent_programs", "forward_programs"),
    *("database_programs", "index_programs"),
    *("workloads", "workloads_held_out", "gate_programs"),
)
SOURCES = (*MODULES, "kernels", "zoo")
#: After those before it in one process, from the last to the first, or in a process of its own.
ORDERS = ("given", "reversed", "alone")
#: The seconds after which a source hangs.
LIMIT = 900


def programs(source: str) -> dict[str, Program]:
    if source == "kernels":
        return dict(_of_kernels())
    if source == "zoo":
        return dict(_of_zoo())
    module = _module(source)
    found: dict[str, Program] = getattr(module, "PROGRAMS", None) or module.WORKLOADS
    return found


def _module(name: str) -> Any:
    if name == "programs":  # this file has the same name
        file = TESTS / "backends" / "simulated" / "programs.py"
        spec = importlib.util.spec_from_file_location("gate_of_programs", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    return importlib.import_module(name)


def _of_kernels() -> Iterator[tuple[str, Program]]:
    from pytest_attnmem.kernels import KERNELS

    for kernel in KERNELS:
        if "cuda" in kernel.devices and "flex" not in kernel.name:
            for causal in kernel.causal:
                yield f"{kernel.name} causal={causal}", partial(_trained, kernel, causal)


def _trained(kernel: Any, causal: bool) -> Any:
    q, k, v = (torch.randn(2, 3, 128, 32, device="cuda", requires_grad=True) for _ in range(3))
    out = kernel.attention(q, k, v, causal=causal)
    out.sum().backward()
    return out


def _of_zoo() -> Iterator[tuple[str, Program]]:
    from zoo.pair import pairs

    for name, pair in pairs().items():
        for bad in (False, True):
            yield f"{name} {'bad' if bad else 'good'}", partial(_variant, pair, bad)


def _variant(pair: Any, bad: bool) -> Any:
    def qkv(batch: int, heads: int, length: int, width: int, **options: Any) -> tuple[Any, ...]:
        return tuple(
            torch.randn(batch, heads, length, width, device="cuda", **options) for _ in range(3)
        )

    given = {"qkv": qkv, "keep": [], **pair.sizes}
    return pair.program(**{name: given[name] for name in pair.arguments}, bad=bad)


def rows_of(name: str, source: str, names: list[str], times: int) -> Iterator[tuple[str, Any]]:
    """Yields each name, and first None, then the row, or the seconds of each time."""
    signal.alarm(LIMIT)
    stand_in = NullDevice() if name == "null" else StandIn(name)
    all_of = programs(source)
    for one in names:
        yield one, None
        program = partial(_seeded, all_of[one])
        if times:
            yield one, [_seconds(stand_in, program) for _ in range(times)]
        else:
            yield one, _row(stand_in, program)


def _row(stand_in: Any, program: Program) -> Any:
    stand_in.restart()
    try:
        numbers, problem = stand_in.run(program)
    except ProgramRefused as error:
        return f"refused: {error}"
    except Exception as error:
        return f"raised: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    return f"refused: {problem}" if problem else numbers


def _seconds(stand_in: Any, program: Program) -> float | None:
    """Returns the processor's seconds of a program, all threads together; None if it fails.

    Collections of garbage pass by PyTorch's own objects, which take longer than small programs.
    """
    stand_in.restart()
    gc.collect()
    gc.freeze()
    start = time.process_time()
    try:
        stand_in.run(program)
    except (Exception, ProgramRefused):
        return None
    return round(time.process_time() - start, 5)


def _seeded(program: Program) -> Any:
    torch.manual_seed(0)
    return program()


def in_children(name: str, source: str, order: str = ORDERS[0], times: int = 0) -> dict[str, Any]:
    """Returns the rows of a device; a child that ends early does not run its program again."""
    waiting, found = [*programs(source)], dict[str, Any]()
    if order == "reversed":
        waiting.reverse()
    while waiting:
        names = waiting[:1] if order == "alone" else waiting
        made, status = in_child(partial(rows_of, name, source, names, times))
        rows, signalled = dict(made), os.WIFSIGNALED(status)
        ended = f"signal {os.WTERMSIG(status)}" if signalled else f"exit {status}"
        found |= {one: row if row is not None else f"crashed: {ended}" for one, row in rows.items()}
        if not rows:
            found[waiting[0]] = f"crashed: {ended}"
        waiting = waiting[max(len(rows), 1) :]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("simulated", "null"))
    parser.add_argument("out", type=Path)
    parser.add_argument("sources", nargs="*", default=SOURCES)
    parser.add_argument("--order", choices=ORDERS, default=ORDERS[0])
    parser.add_argument("--times", type=int, default=0, help="write seconds, of so many runs")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    for source in given.sources:
        found[source] = in_children(given.device, source, given.order, given.times)
        print(given.device, source, len(found[source]), flush=True)
        given.out.write_text(json.dumps(found), "utf-8")  # at once: the next may take minutes
    os._exit(0)


if __name__ == "__main__":
    main()
