"""Sessions written to files, for the commands that read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.report.json import render
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

ENVIRONMENT: Mapping[str, Any] = {
    "python": "3.12.1",
    "platform": "linux",
    "torch": "2.7.1",
    "cuda": None,
    "device": "x86_64",
    "compute_capability": None,
    "allocator": None,
    "threads": 2,
}
ON_CUDA: Mapping[str, Any] = {
    **ENVIRONMENT,
    "cuda": "12.8",
    "device": "NVIDIA H100",
    "compute_capability": "9.0",
    "allocator": {"backend": "native"},
}
ROW = Record(
    "a.py::test",
    outcome=Outcome.WITHIN,
    backend="cpu",
    device="cpu",
    shape={"N": 64},
    budget="32*N",
    limit_bytes=2048,
    peak_bytes=1024,
    where="a.py:3",
    growth=({"sizes": {"N": [32, 64]}, "peaks": [512, 1024], "formula": "16*N"},),
)


def write(path: Path, *rows: Record, **facts: Any) -> str:
    """The path, as text."""
    path.write_text(render(summarise(rows), {**ENVIRONMENT, **facts}), "utf-8")
    return str(path)
