"""Prints the most time and memory that 10 KB of input cost: ``python tests/fuzz/run.py``.

It ends with 1 if a text costs more than 100 ms or 100 MB.
"""

import contextlib
import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from targets import NASTY, TEXTS

from pytest_attnmem.errors import AttnMemError

MOST_SECONDS, MOST_BYTES = 0.1, 100 * 10**6


def cost(read, text):
    """Returns the seconds of a run, and the peak of another's Python memory in bytes."""

    def run():
        with contextlib.suppress(AttnMemError):
            read(text)

    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak


def main():
    worst = 0
    for target in TEXTS:
        costs = [cost(target.read, text) for text in NASTY]
        seconds, nbytes = (max(column) for column in zip(*costs, strict=True))
        worst |= seconds > MOST_SECONDS or nbytes > MOST_BYTES
        print(f"{target.name:20} {1000 * seconds:7.1f} ms {nbytes / 10**6:7.1f} MB")
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
