"""Writes the pictures of the documentation, ``docs/images``: ``python benchmarks/pictures.py``.

The colours are readable on a light and on a dark page, and backgrounds are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch
from torch import nn

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.measurement.measurement import Measurement
from pytest_attnmem.measurement.timeline import Allocation
from pytest_attnmem.units import format_size

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images"
DEVICE: Final = "simulated:A100-80GB"
INK: Final = "#7d8794"
TEAL, BLUE, VIOLET, ORANGE, ROSE = "#12a594", "#4a8fe7", "#8e6fd8", "#e08a2c", "#dc5a7d"
KINDS: Final = {
    "parameters": TEAL,
    "optimizer": VIOLET,
    "gradients": BLUE,
    "activations": ORANGE,
    "temporaries and scratch": ROSE,
}
ROLES: Final = {"parameter": "parameters", "gradient": "gradients", "optimizer": "optimizer"}


def train() -> None:
    """Runs two steps of AdamW on one layer of a transformer, made inside the window."""
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters())
    for _ in range(2):
        loss = forward(layer)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def forward(layer: nn.Module) -> torch.Tensor:
    """Returns the loss of a batch of four sequences of 512 tokens."""
    return layer(torch.randn(4, 512, 1024, device="cuda")).square().mean()


def training_step() -> str:
    """Returns the memory of two steps by kind, from the events of the simulated allocator."""
    measured = _traced()
    line = measured.timeline
    if line is None or measured.peak_bytes is None:
        raise ValueError("the run has no timeline")
    levels = {kind: [0] * line.events for kind in KINDS}
    for span in line.spans:
        end = line.events if span.freed_at is None else span.freed_at
        for event in range(span.allocated_at, end):
            levels[_kind(span)][event] += span.held.nbytes
    width, height, top = 720, 260, 330
    x = [40 + width * event / line.events for event in range(line.events)]
    scale = height / measured.peak_bytes
    below = [0] * line.events
    parts = [_text(40, 24, f"peak {format_size(measured.peak_bytes)} requested")]
    for place, (kind, colour) in enumerate(KINDS.items()):
        above = [low + more for low, more in zip(below, levels[kind], strict=True)]
        parts.append(_area(x, below, above, lambda level: top - level * scale, colour))
        parts.append(_swatch(40 + 145 * place, 392, colour, kind))
        below = above
    parts += _phases(line.spans, x, top)
    return _svg(800, 410, "Memory of two training steps, by kind", parts)


def _traced() -> Measurement:
    return open_primed(DEVICE).run(train, trace=True, most=10**6)[0]


def _kind(span: Allocation) -> str:
    if span.held.role in ROLES:
        return ROLES[span.held.role]
    inside = span.held.function == "forward" and not span.held.scratch
    return "activations" if inside else "temporaries and scratch"


def _phases(spans: Iterable[Allocation], x: list[float], top: int) -> list[str]:
    """Returns the names of the phases, each where its first tensor is allocated."""
    found, last = list[tuple[float, str]](), ""
    for span in spans:
        in_optimizer = span.held.role == "optimizer"
        made = span.held.role == "parameter"
        name = "model" if made else "step" if in_optimizer else "backward"
        if span.held.function == "forward":
            name = "forward"
        if name != last:
            found.append((x[span.allocated_at], name))
        last = name
    rows = [_line(at, top - 262, at, top + 8, dashed=True) for at, _ in found[1:]]
    rows += [
        _text(at + 4, top + 20, name, 12)
        for (at, name), (after, _) in pairwise([*found, (x[-1], "")])
        if after - at > 30
    ]
    return rows


def numbers() -> str:
    """Returns what each number counts for five tensors of a million bytes."""
    measured = open_primed(DEVICE).run(five_tensors)[0]
    rows = [
        ("requested", measured.peak_bytes, TEAL, "the five tensors, to the byte"),
        ("allocated", measured.allocated_bytes, BLUE, "each rounded to a multiple of 512 B"),
        ("reserved", measured.reserved_bytes, VIOLET, "three segments of 2 MiB from the driver"),
    ]
    most = max(size or 0 for _, size, _, _ in rows)
    parts = []
    for place, (name, size, colour, why) in enumerate(rows):
        y = 20 + 62 * place
        parts.append(_box(110, y, 440 * (size or 0) / most, 38, colour))
        parts.append(_text(4, y + 24, name))
        parts.append(_text(110, y + 54, f"{size:,} B: {why}", 12))
    y = 20 + 62 * len(rows)
    parts += [_box(110, y, 440, 38, VIOLET), _box(550, y, 130, 38, ROSE)]
    parts += [_text(4, y + 24, "nvidia-smi"), _text(560, y + 24, "CUDA context")]
    parts.append(_text(110, y + 54, "all segments, the context, libraries; all processes", 12))
    return _svg(720, 290, "What requested, allocated, reserved and nvidia-smi count", parts)


def five_tensors() -> list[torch.Tensor]:
    """Returns five tensors, each of a million bytes."""
    return [torch.empty(1_000_000, dtype=torch.uint8, device="cuda") for _ in range(5)]


LAYERS: Final = (
    "your test",
    "PyTorch: dispatcher, autograd",
    "operators and their scratch memory",
    "caching allocator",
    "CUDA runtime and driver",
    "GPU",
)
RUNS: Final = {
    "cuda": "rrrrrr",
    "null": "rrrrn-",
    "simulated": "rrmm--",
    "cpu": "rrcc--",
}
LEGEND: Final = {
    "r": (TEAL, "PyTorch's own"),
    "m": (VIOLET, "model"),
    "n": (ORANGE, "computes nothing"),
    "c": (BLUE, "the CPU's own"),
}


def backends() -> str:
    """Returns the layers of a program on each backend: real, a model, or missing."""
    parts = [_text(270 + 134 * place, 22, name) for place, name in enumerate(RUNS)]
    for row, layer in enumerate(LAYERS):
        y = 36 + 46 * row
        parts.append(_text(4, y + 24, layer, 13))
        for place, kinds in enumerate(RUNS.values()):
            left = 262 + 134 * place
            if kinds[row] == "-":
                parts.append(_text(left + 52, y + 24, "–"))
            else:
                colour, name = LEGEND[kinds[row]]
                parts.append(_box(left, y, 124, 36, colour))
                shown = "yours" if row == 0 else "the device" if row == 5 else name
                parts.append(_text(left + 8, y + 23, shown, 12))
    return _svg(800, 320, "The layers under a test on each backend", parts)


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "training-step.svg": training_step,
    "numbers.svg": numbers,
    "backends.svg": backends,
}


def _svg(width: int, height: int, title: str, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' font-family="system-ui, sans-serif" role="img">\n<title>{escape(title)}</title>\n'
        f"{body}\n</svg>\n"
    )


def _text(x: float, y: float, text: str, size: int = 14) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{INK}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"'
        f' fill="{colour}" fill-opacity="0.22" stroke="{colour}"/>'
    )


def _swatch(x: float, y: float, colour: str, name: str) -> str:
    return _box(x, y - 10, 12, 12, colour) + _text(x + 18, y, name, 12)


def _line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="3 4"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        f' stroke="{INK}" stroke-width="0.7"{dash}/>'
    )


def _area(
    x: list[float],
    low: list[int],
    high: list[int],
    y: Callable[[int], float],
    colour: str,
) -> str:
    """Returns the area between two lines of steps."""
    if low == high:
        return ""
    upper = [f"{at:.1f},{y(level):.1f}" for at, level in _steps(x, high)]
    lower = [f"{at:.1f},{y(level):.1f}" for at, level in _steps(x, low)]
    points = " ".join([*upper, *reversed(lower)])
    return f'<polygon points="{points}" fill="{colour}" fill-opacity="0.75"/>'


def _steps(x: list[float], levels: list[int]) -> Iterable[tuple[float, int]]:
    for (at, level), (after, _) in pairwise(zip(x, levels, strict=True)):
        yield at, level
        yield after, level


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        (FOLDER / name).write_text(picture(), encoding="utf-8")
