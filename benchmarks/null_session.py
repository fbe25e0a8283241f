"""Times a session of pytest on the null device, beside one without the plugin.

PYTHON benchmarks/null_session.py [--rounds 5]

``PYTHON`` is an interpreter where ``attnmem install null`` was run, or with a CUDA build of torch.
It writes its section of ``docs/evidence/performance.md``. Times are the least of some rounds, in
turns.
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

PAGE: Final = Path(__file__).parents[1] / "docs" / "evidence" / "performance.md"
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

Sessions of pytest on `null:{DEVICE}` with one trivial marked test and with {TESTS}, beside the same
tests without the plugin, which import the same torch, {{torch}}. Each is the least of {{rounds}}
runs; the last line is the difference by test. `python benchmarks/null_session.py` measures it.

| | bare, s | null, s | null - bare |
|---|---:|---:|---:|
"""


def seconds(command: list[str], folder: Path, env: dict[str, str]) -> float:
    """Returns the wall-clock time of a command, which must end well."""
    began = time.perf_counter()
    subprocess.run(command, check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(rounds: int) -> dict[tuple[str, int], float]:
    """Returns the least time of each."""
    plain = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    session = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    bare = [*session, "-p", "no:attnmem", "-W", "ignore"]
    null = [*session, "--attnmem-backend", f"null:{DEVICE}"]
    found: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {tests: Path(scratch, str(tests)) for tests in (1, TESTS)}
        for tests, folder in folders.items():
            folder.mkdir()
            (folder / "pytest.ini").write_text("[pytest]\n")
            (folder / "test_it.py").write_text(SUITE.format(tests=tests))
        on_null = {**plain, **environment(find_profile(DEVICE))}
        for _ in range(rounds):
            for tests, folder in folders.items():
                for name, command, env in (("bare", bare, on_null), ("null", null, plain)):
                    took = seconds(command, folder, env)
                    found.setdefault((name, tests), []).append(took)
    return {key: min(times) for key, times in found.items()}


def section(times: dict[tuple[str, int], float], rounds: int, torch: str) -> str:
    """Returns the section of the page."""
    lines = []
    for tests, title in ((1, "a session with one test"), (TESTS, f"a session with {TESTS}")):
        bare, null = times["bare", tests], times["null", tests]
        lines.append(f"| {title} | {bare:.2f} | {null:.2f} | {null - bare:+.2f} |\n")
    bare, null = ((times[name, TESTS] - times[name, 1]) / (TESTS - 1) for name in ("bare", "null"))
    lines.append(f"| a test | {bare:.4f} | {null:.4f} | {null - bare:+.4f} |\n")
    return HEAD.format(rounds=rounds, torch=torch) + "".join(lines)


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
