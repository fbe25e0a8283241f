"""The programs of this repository on one device: peaks, retained bytes and drawn numbers.

``python tests/device_gate/programs.py device OUT.json [SOURCE ...]`` runs them on a stand-in, each
source in children; under the null device's environment, ``null`` runs them there. A row has the
peaks of requested, allocated and reserved bytes, the requested bytes at the end, and the numbers
that the device's generator drew; or a text that says why there is none.
"""

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
from stand_ins import StandIn, collected_after

from pytest_attnmem.errors import ProgramRefused

TESTS = Path(__file__).parents[1]

Program = Callable[[], Any]
#: Modules of the tests with ``PROGRAMS``, or ``WORKLOADS``.
MODULES = (
    *("programs", "random_programs", "layout_programs", "mended_programs", "one_element_programs"),
    *("empty_programs", "recurrent_programs", "factorization_programs", "forward_programs"),
    *("deterministic_programs", "database_programs", "index_programs"),
    *("workloads", "workloads_held_out", "gate_programs"),
)
SOURCES = (*MODULES, "kernels", "zoo")
#: The seconds after which a source hangs.
LIMIT = 900


def programs(source: str) -> dict[str, Program]:
    """Returns the programs of a source by name."""
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

    for kernel in KERNELS.values() if isinstance(KERNELS, dict) else KERNELS:
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


def on_stand_in(name: str, source: str, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yields each name, and first None, then the row."""
    stand_in, all_of = StandIn(name), programs(source)
    for one in names:
        yield one, None
        yield one, _row(stand_in, all_of[one])


def _row(stand_in: StandIn, program: Program) -> Any:
    stand_in.restart(primed=False)
    torch.manual_seed(0)
    try:
        numbers, problem = stand_in.run(partial(_seeded, program))
    except ProgramRefused as error:
        return f"refused: {error}"
    except Exception as error:
        return f"raised: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    return f"refused: {problem}" if problem else numbers


def _seeded(program: Program) -> Any:
    torch.manual_seed(0)
    return program()


def on_null(source: str) -> dict[str, Any]:
    """Returns the rows of the null device, of this process."""
    from pytest_attnmem.backends.null.settled_backward import settle_each_pass
    from pytest_attnmem.nulldevice import counts

    torch.cuda.init()
    settle_each_pass()
    found: dict[str, Any] = {}
    for name, program in programs(source).items():
        _empty()
        torch.cuda.reset_peak_memory_stats()
        calls = counts.unknown_calls()
        try:
            with collected_after():
                kept = _seeded(program)
                gc.collect()
        except (Exception, ProgramRefused) as error:
            found[name] = f"raised: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
            continue
        levels = torch.cuda.memory_stats()
        found[name] = [
            *(levels[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")),
            levels["requested_bytes.all.current"],
            torch.cuda.default_generators[0].get_offset(),
        ]
        del kept
        if counts.unknown_calls() != calls:
            found[name] = "refused: a call that the null device does not know"
    return found


def _empty() -> None:
    """Waits for autograd's thread to free the last step, and empties the device."""
    for _ in range(100):
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        if not torch.cuda.memory_reserved():
            return
        time.sleep(0.02)


def in_children(name: str, source: str) -> dict[str, Any]:
    """Returns the rows of a stand-in; a child that ends early does not run its program again."""
    waiting, found = [*programs(source)], {}
    while waiting:
        rows, ended = _in_child(partial(on_stand_in, name, source, waiting))
        found |= {one: row if row is not None else f"crashed: {ended}" for one, row in rows.items()}
        if not rows:
            return {**found, waiting[0]: f"crashed: {ended}"}
        waiting = waiting[len(rows) :]
    return found


def _in_child(rows: Callable[[], Iterator[tuple[str, Any]]]) -> tuple[dict[str, Any], str]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LIMIT)
        with os.fdopen(writing, "w") as pipe:
            for row in rows():
                print(json.dumps(row), file=pipe, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = dict(json.loads(line) for line in pipe)
    status = os.waitpid(child, 0)[1]
    return found, f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status}"


def main() -> None:
    """Writes the rows of each source."""
    name, out, *sources = sys.argv[1:]
    warnings.simplefilter("ignore")
    found = {}
    for source in sources or SOURCES:
        start = time.process_time() + sum(os.times()[2:4])
        found[source] = on_null(source) if name == "null" else in_children(name, source)
        seconds = time.process_time() + sum(os.times()[2:4]) - start
        print(name, source, len(found[source]), f"{seconds:.1f} s", flush=True)
        Path(out).write_text(json.dumps(found), "utf-8")  # at once: the next one may take minutes
    os._exit(0)


if __name__ == "__main__":
    main()
