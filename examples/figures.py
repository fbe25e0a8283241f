"""Draws the memory of attention by length, and of linear attention: ``figures.py DIRECTORY``."""

import sys
from pathlib import Path

from pytest_attnmem.plot import save, savings, scaling
from pytest_attnmem.profiling import memory_scaling, profile_memory_scaling, save_csv

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)


def main(directory: Path) -> None:
    """Draws the lab's figure from a real run, and the notebook's two from a simulated A100."""
    directory.mkdir(parents=True, exist_ok=True)
    save(scaling.draw_quadratic(profile_memory_scaling(LENGTHS[:4])), directory / "quadratic.png")
    rows = memory_scaling(LENGTHS, backend="simulated:A100-80GB")
    save(scaling.draw(rows), directory / "memory_scaling.png")
    save(savings.draw(rows), directory / "memory_savings.png")
    save_csv(rows, directory / "memory_profiling.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
