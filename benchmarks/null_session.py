"""What a session on the null device costs, beside importing the same torch.

PYTHON benchmarks/null_session.py [--rounds 5]

``PYTHON`` is an interpreter where ``attnmem install null`` was run, or with a CUDA build of torch.
It writes its section of ``docs/performance.md``. Times are the least of some rounds, in turns.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
TITLE: Final = "## A session on the null device"
DEVICE: Final = "H100"
TESTS: Final = 300
SUITE: Final = """
import pytest
import torch


@pytest.mark.memory_budget("1 KiB")
@pytest.mark.parametrize("i", range({tests}))
def test_it(i):
    torch.ones(16, device="cuda")
"""
HEAD: Final = f"""{TITLE}

A process that imports torch {{torch}}, and sessions of pytest on `null:{DEVICE}` with one trivial
marked test and with {TESTS}. Each is the least of {{rounds}} runs, and the last line is the
difference by test. `python benchmarks/null_session.py` measures this table.

| | s | above importing torch |
|---|---:|---:|
"""


def seconds(command: list[str], folder: Path, env: dict[str, str]) -> float:
    """Returns the wall-clock time of a command, which must end well."""
    began = time.perf_counter()
    subprocess.run(command, check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(rounds: int) -> dict[str, float]:
    """Returns the least time of each."""
    plain = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    session = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    null = [*session, "--attnmem-backend", f"null:{DEVICE}"]
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {tests: Path(scratch, str(tests)) for tests in (1, TESTS)}
        for tests, folder in folders.items():
            folder.mkdir()
            (folder / "pytest.ini").write_text("[pytest]\n")
            (folder / "test_it.py").write_text(SUITE.format(tests=tests))
        on_null = {**plain, **environment(find_profile(DEVICE))}
        imported = [sys.executable, "-c", "import torch"]
        for _ in range(rounds):
            for name, command, folder, env in (
                ("`import torch`", imported, folders[1], on_null),
                ("a session with one test", null, folders[1], plain),
                (f"a session with {TESTS}", null, folders[TESTS], plain),
            ):
                found.setdefault(name, []).append(seconds(command, folder, env))
    return {name: min(times) for name, times in found.items()}


def section(times: dict[str, float], rounds: int, torch: str) -> str:
    """Returns the section of the page."""
    bare, one, many = times.values()
    lines = [f"| {name} | {took:.2f} | {took - bare:+.2f} |\n" for name, took in times.items()]
    each = f"| a marked test, in ms | {(many - one) / (TESTS - 1) * 1e3:.2f} | |\n"
    return HEAD.format(rounds=rounds, torch=torch) + "".join([*lines, each])


def main() -> None:
    """Measures, and writes the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    from importlib.metadata import version

    made = section(measure(rounds), rounds, version("torch"))
    text = PAGE.read_text("utf-8")
    pattern = re.compile(rf"{TITLE}\n.*?(?=\n## |\Z)", re.DOTALL)
    text = pattern.sub(lambda _: made, text) if TITLE in text else f"{text}\n{made}"
    PAGE.write_text(text, "utf-8")
    print(made)


if __name__ == "__main__":
    main()
