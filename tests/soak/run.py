"""Runs one suite again and again, in random order: ``python tests/soak/run.py --cpu 20``.

Every eighth run has two workers of pytest-xdist. A run with another outcome than the first, and
each row with other bytes, is printed, and ends the command with 1.

On cpu and simulated, a serial run is a fork of this process, which has torch imported and has used
nothing of it. The other runs start a new Python.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401 - for the forks: it takes most of the time of a run

SUITE = Path(__file__).parent / "suite"
BYTES = ("peak_bytes", "allocated_bytes", "reserved_bytes", "retained_bytes", "outcome")
#: Each worker of one suite is a process of the same kind, so the bytes of all must be equal.
WORKERS = ("-n2", "--dist", "load")


def started(python, arguments, seed):
    """Returns the exit code and the output of a session in a new Python."""
    environment = {**os.environ, "SOAK_SEED": str(seed)}
    command = [python, "-m", "pytest", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def forked(arguments, seed):
    """Returns the exit code and the output of a session in a fork of this process."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            code = pytest.ExitCode.INTERNAL_ERROR
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                os.environ["SOAK_SEED"] = str(seed)
                code = pytest.main(arguments)
            except BaseException:  # raised after the session, and hidden by the exit below
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return code, output.read()


def rows(python, backend, seed, parallel):
    """Returns the exit code, and test → bytes and outcome, of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        arguments = [
            *(str(SUITE), "-q", "-p", "no:cacheprovider", "-c", os.devnull),
            *(f"--rootdir={SUITE}", f"--confcutdir={SUITE}"),  # not the conftest of our tests
            *("--attnmem-backend", backend, "--attnmem-strict=all", f"--attnmem-json={path}"),
            *(WORKERS if parallel else ()),
        ]
        if parallel or backend.startswith("null"):
            code, output = started(python, arguments, seed)
        else:
            code, output = forked(arguments, seed)
        found = json.loads(path.read_text())["results"] if path.is_file() else []
    if code:
        print(output[-3000:])
    counted = Counter()
    named = {}
    for row in found:
        key = (row["nodeid"], row["region"], row["metric"])
        counted[key] += 1
        named[(*key, counted[key])] = tuple(row[name] for name in BYTES)
    return code, named


def soak(python, backend, runs):
    """Runs the suite; returns the number of red runs, and of rows with other bytes."""
    first, reds, differences = None, 0, 0
    for seed in range(runs):
        code, found = rows(python, backend, seed, parallel=seed % 8 == 1)
        first = found if first is None else first
        other = [key for key in {*first, *found} if first.get(key) != found.get(key)]
        reds += code != 0
        differences += len(other)
        state = f"red, exit status {code}" if code else "green"
        print(f"{backend}, seed {seed}: {len(found)} rows, {state}, {len(other)} other", flush=True)
        for key in other:
            print(f"{backend}, seed {seed}: {key}: {first.get(key)} → {found.get(key)}")
    print(f"{backend}: {runs} runs of {len(first or ())} rows, {reds} red, {differences} other")
    return reds + differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cpu", type=int, default=0, metavar="RUNS")
    parser.add_argument("--simulated", type=int, default=0, metavar="RUNS")
    parser.add_argument("--null", type=int, default=0, metavar="RUNS")
    parser.add_argument("--null-python", default=sys.executable, help="of a CUDA build of torch")
    asked = parser.parse_args()
    if not (asked.cpu or asked.simulated or asked.null):
        asked.cpu, asked.simulated = 200, 100
    wrong = soak(sys.executable, "cpu", asked.cpu) if asked.cpu else 0
    wrong += soak(sys.executable, "simulated:H100", asked.simulated) if asked.simulated else 0
    wrong += soak(asked.null_python, "null:H100", asked.null) if asked.null else 0
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
