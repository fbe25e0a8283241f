"""Writes the pictures of the documentation, ``docs/images``: ``python benchmarks/pictures.py``.

The colours are readable on a light and on a dark page. ``page.png`` needs playwright and Chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch
from torch import nn

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.measurement.timeline import Allocation
from pytest_attnmem.units import format_size

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images"
DEVICE: Final = "simulated:A100-80GB"
TEST: Final = "test_attn.py"
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
    measured = open_primed(DEVICE).run(train, trace=True, most=10**6)[0]
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


def failure() -> str:
    """Returns what pytest prints of the README's test, as a terminal shows it."""
    with tempfile.TemporaryDirectory() as made:
        shown = [f"$ pytest {TEST}", *_printed(Path(made))]
    rows = [
        f'<text x="16" y="{28 + 18 * place}" xml:space="preserve"'
        f' fill="{_colour(place, len(shown))}">{escape(line)}</text>'
        for place, line in enumerate(shown)
    ]
    width, height = 32 + 7.3 * max(map(len, shown)), 24 + 18 * len(shown)
    parts = [f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1d2430"/>']
    parts += [f'<g font-family="ui-monospace, monospace" font-size="12">{"".join(rows)}</g>']
    return _svg(round(width), height, "A failed test", parts)


def _printed(folder: Path, *more: str) -> list[str]:
    """Returns the lines of the failure of the README's test, from its first line on."""
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    attention, test = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[:2]
    (folder / "attn.py").write_text(attention, encoding="utf-8")
    (folder / TEST).write_text(test, encoding="utf-8")
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "80"}
    options = ("-p", "pytest_attnmem.plugin", "-p", "no:cacheprovider", "--attnmem-backend=cpu")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", TEST, *options, *more],
        cwd=folder,
        env=alone,
        capture_output=True,
        text=True,
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    first = next(place for place, line in enumerate(lines) if line.startswith("____"))
    last = next(place for place, line in enumerate(lines) if line.startswith("attnmem: "))
    return lines[first:last]


def _colour(place: int, lines: int) -> str:
    """Returns the colour of a line: the command, the verdict and the last line stand out."""
    return {0: "#9aa5b5", 1: "#ff8d8d", 2: "#ff8d8d", lines - 1: "#7fd8c8"}.get(place, "#e6eaf0")


#: What a program runs through, from itself down, on a GPU and on the two devices that stand for it.
LAYERS: Final = (
    ("", "on a GPU", "null", "simulated"),
    ("program", "yours", "yours", "yours"),
    ("torch, autograd, composites", "PyTorch", "PyTorch", "PyTorch"),
    ("operators: shapes, kernels, scratch", "PyTorch", "PyTorch", "rules, certified on null"),
    ("caching allocator", "PyTorch", "PyTorch", "a model of it"),
    ("CUDA runtime and libraries", "NVIDIA", "it computes nothing", ""),
    ("device", "a GPU", "a profile: H100, A100, …", "a profile: H100, A100, …"),
)
MADE_BY: Final = {"yours": ORANGE, "PyTorch": BLUE, "NVIDIA": TEAL, "a GPU": TEAL}


def stand_ins() -> str:
    """Returns who answers at each layer, on a GPU, on null and on the simulated device."""
    parts: list[str] = []
    left, width, height = 270, 190, 40
    for row, (layer, *cells) in enumerate(LAYERS):
        y = 20 + (height + 6) * row
        parts.append(_text(16, y + 25, layer))
        for column, name in enumerate(cells):
            x = left + (width + 6) * column
            if row and name:
                parts.append(_box(x, y, width, height, MADE_BY.get(name, VIOLET)))
            parts.append(_text(x + 10, y + 25, name, 12 if row else 14))
    bottom = 20 + (height + 6) * len(LAYERS) + 18
    legend = (("PyTorch's own code", BLUE), ("NVIDIA's", TEAL), ("pytest-attnmem's", VIOLET))
    for column, (name, colour) in enumerate(legend):
        parts.append(_swatch(left + (width + 6) * column, bottom, colour, name))
    return _svg(left + 3 * (width + 6) + 10, bottom + 20, "Who answers at each layer", parts)


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "training-step.svg": training_step,
    "failure.svg": failure,
    "stand-ins.svg": stand_ins,
}


#: The tests whose page ``page.png`` shows, beside that of the README.
SUITE: Final = """
import pytest
import torch
from pytest_attnmem.kernels import checkpointed, flash
from torch import nn


@pytest.mark.memory_budget("O(N*d)")
@pytest.mark.parametrize(("N", "d"), [(512, 64)])
def test_tiles(qkv, N, d):
    flash.attention(*qkv(B=1, H=8, N=N, d=d))


@pytest.mark.memory_budget("768 MiB", warmup=1)
def test_training_step():
    layer = nn.TransformerEncoderLayer(1024, 16, batch_first=True, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.randn(8, 512, 1024, device="cuda")).sum().backward()
    optimizer.step()


@pytest.mark.memory_budget("8*B*H*N*N*itemsize")
def test_checkpointed(qkv):
    q, k, v = qkv(B=1, H=4, N=1024, d=64, requires_grad=True)
    checkpointed.attention(q, k, v).sum().backward()
"""


def page(path: Path) -> None:
    """Writes the first screen of a session's page, with the details of the test that failed."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        folder = Path(made)
        (folder / "test_layers.py").write_text(SUITE, encoding="utf-8")
        options = ("--attnmem-backend=simulated:H100", "--attnmem-explain=all")
        _printed(folder, "test_layers.py", "--attnmem-html=page.html", *options)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport={"width": 1120, "height": 1000})
        tab.goto((folder / "page.html").as_uri())
        tab.locator(".drawing:not(:has(*))").first.wait_for(state="detached")
        tab.screenshot(path=path)


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
    page(FOLDER / "page.png")
