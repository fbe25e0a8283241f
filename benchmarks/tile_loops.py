"""Measures attention in loops of tiles: on the CPU, simulated, and by the least that Python can do.

    python benchmarks/tile_loops.py [--rounds 5]

A simulated operator takes as long at any size, and a computed one does not: at which sizes does a
simulation take less time than the CPU? :class:`LeastOps` and :class:`LeastCalls` are a bound for
a simulation that sees each operator in Python: they make the tensors of the program and do nothing
else. Each number is the time of the processor with one thread, the least of the rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from pytest_attnmem import measure
from pytest_attnmem.measurement.garbage import garbage_frozen

#: Tiles in a row and in a column: 1024 in all.
SIDE: Final = 32


class Loop(NamedTuple):
    """The seconds that one loop takes, by where its tensors are."""

    name: str
    heads: int
    tile: int
    cpu: float
    simulated: float
    """In a session of pytest, which freezes what torch's import made: no collection visits it."""
    meta: float
    least: float


def tiles(device: str, heads: int, tile: int, width: int = 64) -> None:
    """Flash attention as a loop in Python over 32 x 32 tiles, without gradients."""
    length = SIDE * tile
    q, k, v = (torch.ones(1, heads, length, width, device=device) for _ in "qkv")
    out = torch.empty_like(q)
    for i in range(0, length, tile):
        rows = q[:, :, i : i + tile] * width**-0.5
        top = torch.full((1, heads, tile, 1), float("-inf"), device=device)
        total, sums = torch.zeros_like(top), torch.zeros_like(rows)
        for j in range(0, length, tile):
            scores = rows @ k[:, :, j : j + tile].mT
            highest = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, shrink = (scores - highest).exp(), (top - highest).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            sums = sums * shrink + weights @ v[:, :, j : j + tile]
            top = highest
        out[:, :, i : i + tile] = sums / total


def trained(device: str, heads: int, tile: int, width: int = 64) -> None:
    """The loop of Rabe and Staats over 32 x 32 checkpointed tiles, and its backward pass."""

    def of_tile(rows: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = torch.einsum("bhid,bhjd->bhij", rows, k)
        top = scores.detach().amax(-1, keepdim=True)
        weights = (scores - top).exp()
        return torch.einsum("bhij,bhjd->bhid", weights, v), weights.sum(-1, keepdim=True), top

    length = SIDE * tile
    q, k, v = (torch.ones(1, heads, length, width, device=device) for _ in "qkv")
    rows, keys, values = (x.requires_grad_().split(tile, 2) for x in (q, k, v))
    out = []
    for row in rows:
        parts = [
            checkpoint(of_tile, row, *tile_of, use_reentrant=True)
            for tile_of in zip(keys, values, strict=True)
        ]
        sums, totals, tops = (torch.stack(part) for part in zip(*parts, strict=True))
        shrink = (tops - tops.amax(0)).exp()
        out.append((sums * shrink).sum(0) / (totals * shrink).sum(0))
    torch.cat(out, 2).sum().backward()


class _Made(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} passed the mode")


class LeastOps(TorchDispatchMode):
    """Makes the tensors that a program on ``meta`` gets, and does nothing else.

    A simulation does that too, and beside it follows devices, memory and values. A view is made by
    PyTorch's kernel; another result from the sizes of the last call with such arguments.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known: dict[Any, Any] = {}
        self._views: dict[int, Any] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            view = self._views.get(id(func))
            if view is None:
                name = func._schema.name.removeprefix("aten::")
                view = func.is_view and getattr(torch.Tensor, name, func)
                self._views[id(func)] = view
            if view:
                return _made(_on_meta(view, args, {}))
            key = _key(func, args)
            known = self._known.get(key)
            if known is None:
                out = _on_meta(func, args, kwargs or {})
                if args and out is args[0]:
                    return out
                if type(out) is torch.Tensor:
                    self._known[key] = _layout(out)
                return _made(out)
            return _like(known)


class LeastCalls(TorchFunctionMode):
    """Does the same for calls of PyTorch's functions, which need no dispatcher then.

    Calls that record a gradient go on to the dispatcher, which makes the graph.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known: dict[Any, Any] = {}
        self._others: set[int] = set()
        """Functions that make a view, or change a tensor."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            if id(func) in self._others or torch.is_grad_enabled():
                return func(*args, **(kwargs or {}))
            key = _key(func, args)
            known = None if key is None else self._known.get(key)
            if known is not None:
                with torch._C._DisableTorchDispatch():
                    return _like(known)
            out = func(*args, **(kwargs or {}))
            if key is None or type(out) is not _Made or out._is_view():
                self._others.add(id(func))
            else:
                self._known[key] = _layout(out)
            return out


def _key(func: Any, args: tuple[Any, ...]) -> Any:
    """Returns what the sizes of a result depend on; None of an assignment to a part."""
    parts = [id(func)]
    for arg in args:
        if issubclass(type(arg), torch.Tensor):
            parts.append(_layout(arg))
        elif type(arg) is tuple and slice in map(type, arg):
            return None
        else:
            parts.append(tuple(arg) if type(arg) is list else arg)
    return tuple(parts)


def _on_meta(func: Any, args: Any, kwargs: Any) -> Any:
    torch._C._set_meta_in_tls_dispatch_include(True)
    try:
        return func(*args, **kwargs)
    finally:
        torch._C._set_meta_in_tls_dispatch_include(False)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype


def _like(known: tuple[Any, ...]) -> Any:
    shape, stride, dtype = known
    return _made(torch.empty_strided(shape, stride, dtype=dtype, device="meta"))


def _made(out: Any) -> Any:
    if type(out) in (list, tuple):
        return [*map(_made, out)]
    return torch.Tensor._make_subclass(_Made, out)


#: What is measured: the loop, its heads, and the queries and keys of a tile.
LOOPS: Final = (
    *((tiles, 1, 128), (tiles, 8, 64), (tiles, 8, 128), (tiles, 32, 128)),
    *((trained, 1, 128), (trained, 8, 64), (trained, 8, 128)),
)


def measured(rounds: int) -> list[Loop]:
    """Returns the times of each loop, the least of so many rounds."""
    torch.set_num_threads(1)
    return [_loop(rounds, *loop) for loop in LOOPS]


def _loop(rounds: int, program: Callable[[str, int, int], None], heads: int, tile: int) -> Loop:
    def run(device: str) -> None:
        with torch.set_grad_enabled(program is trained):
            program(device, heads, tile)

    def simulated() -> None:
        measure(program, "cuda", heads, tile, backend="simulated:H100")

    def least() -> None:
        with LeastOps(), LeastCalls():
            run("meta")

    ways = (partial(run, "cpu"), simulated, partial(run, "meta"), least)
    for way in ways:  # warms up
        way()
    with garbage_frozen():
        found = [[_seconds(way) for way in ways] for _ in range(rounds)]
    return Loop(program.__name__, heads, tile, *map(min, zip(*found, strict=True)))


def _seconds(run: Callable[[], None]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def table(found: Iterable[Loop]) -> Iterator[str]:
    """Yields the lines of a table in Markdown: seconds on the CPU, and the others as ratios."""
    yield (
        "| loop | heads | tile | CPU s | simulated / CPU | `meta` / CPU | least in Python / CPU |"
    )
    yield f"|---|{'---:|' * 6}"
    for loop in found:
        ratios = [f"{one / loop.cpu:.2f}" for one in (loop.simulated, loop.meta, loop.least)]
        cells = (loop.heads, f"{loop.tile} x {loop.tile}", f"{loop.cpu:.2f}", *ratios)
        yield f"| `{loop.name}` | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    print("\n".join(table(measured(parser.parse_args().rounds))))
