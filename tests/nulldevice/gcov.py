"""Counts the lines and branches of the null runtime that tests run: ``python …/gcov.py [TESTS]``.

The runtime is compiled with gcov's counters into a cache of its own. The tests are those of
``tests/null`` whose programs call the runtime; a path runs others, and ``-n 2`` two at a time.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NULL = HERE.parent / "null"
NAMES = (
    *("copies", "contexts", "streams", "kernels", "management", "nccl", "cudnn_calls"),
    *("frees", "cublas_handles", "host_memory", "unknown_calls", "cudnn_plans"),
    *("device", "memory", "run", "ranks", "session", "reserved", "snapshot", "values", "cudnn"),
    *("programs", "compiled", "flash_triton", "triton_values", "placements"),
)
TESTS = [str(NULL / f"test_{name}.py") for name in NAMES]
#: Triton compiles with $CC too, as a single word, and keeps what it compiled: without counters.
COMPILER = """#!/bin/sh
case "$*" in */nulldevice/source/*) exec gcc {flags} "$@" ;; esac
exec gcc "$@"
"""


def counted(folder: Path, tests: list[str]) -> None:
    """Runs the tests on a runtime with counters, which it writes below the folder."""
    flags = ("--coverage", "-fprofile-update=atomic", f"-fprofile-dir={folder}/counts")
    compiler = folder / "cc"
    compiler.write_text(COMPILER.format(flags=" ".join((*flags, str(HERE / "flush_at_exit.c")))))
    compiler.chmod(0o755)
    environment = {**os.environ, "CC": str(compiler), "XDG_CACHE_HOME": f"{folder}/cache"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    subprocess.run(command, env=environment, check=False)


def files(folder: Path) -> dict[str, dict]:
    """Returns gcov's report of each file of the runtime."""
    for counts in (folder / "counts").rglob("*.gcda"):
        notes = next((folder / "cache").rglob(f"{counts.stem}.gcno"))
        shutil.copy(counts, notes.with_suffix(".gcda"))
    found: dict[str, dict] = {}
    for notes in (folder / "cache").rglob("*.gcno"):
        command = ["gcov", "--branch-probabilities", "--json-format", "--stdout", notes.name]
        done = subprocess.run(command, cwd=notes.parent, capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            for file in json.loads(line)["files"]:
                if "nulldevice/source/" in file["file"] and file["file"].endswith(".c"):
                    found[Path(file["file"]).name] = file
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        counted(Path(folder), sys.argv[1:] or TESTS)
        found = files(Path(folder))
    total = [0, 0, 0, 0]
    for name, file in sorted(found.items()):
        lines = file["lines"]
        branches = [branch for line in lines for branch in line["branches"]]
        row = [
            *(len(lines), sum(line["count"] > 0 for line in lines)),
            *(len(branches), sum(branch["count"] > 0 for branch in branches)),
        ]
        total = [old + new for old, new in zip(total, row, strict=True)]
        missed = [line["line_number"] for line in lines if not line["count"]]
        print(
            f"{name:20} {row[1]:4} of {row[0]:4} lines, {row[3]:4} of {row[2]:4} branches", missed
        )
    print(f"{100 * total[1] / total[0]:.1f} % of {total[0]} lines, ", end="")
    print(f"{100 * total[3] / total[2]:.1f} % of {total[2]} branches")


if __name__ == "__main__":
    main()
