"""Measures attention in loops of tiles: on the CPU, simulated, and by the least that Python can do.

    python benchmarks/tile_loops.py [--rounds 5]

A simulated operator takes as long at any size, and a computed one does not: at which sizes does a
simulation take less time than the CPU? ``least_in_python`` has two bounds for a simulation that
sees each operator in Python. Each number is the time of the processor with one thread, the least of
the rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

import torch
from least_in_python import Account, least_in_python
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
    making: float
    counting: float


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

    def making() -> None:
        with least_in_python():
            run("meta")

    def counting() -> None:
        with least_in_python(Account()):
            run("meta")

    ways = (partial(run, "cpu"), simulated, partial(run, "meta"), making, counting)
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
        "| loop | heads | tile | CPU s | simulated / CPU | `meta` / CPU | making tensors / CPU"
        " | counting memory / CPU |"
    )
    yield f"|---|{'---:|' * 7}"
    for loop in found:
        times = (loop.simulated, loop.meta, loop.making, loop.counting)
        ratios = [f"{one / loop.cpu:.2f}" for one in times]
        cells = (loop.heads, f"{loop.tile} x {loop.tile}", f"{loop.cpu:.2f}", *ratios)
        yield f"| `{loop.name}` | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    print("\n".join(table(measured(parser.parse_args().rounds))))
