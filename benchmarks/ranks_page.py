"""Writes the table of ``docs/reference/ranks.md``: peaks of one step under each way of sharding it.

Run it with the Python of a CUDA build: ``python benchmarks/ranks_page.py``.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_attnmem.units import format_size

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reference" / "ranks.md"
START, END = "<!-- ways -->\n", "<!-- /ways -->"
WAYS = ("DDP", "ZeRO-1", "FSDP1", "FSDP2", "HSDP")
WORLDS = (8, 1024)


def peaks(way: str, world: int) -> str:
    """Returns the requested peak of the first and the last rank."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", "H100"),
                *("--ranks", str(world), "--json", str(path)),
                *("--", str(HERE / "ranks_program.py"), way),
            ],
            check=True,
        )
        found = json.loads(path.read_text("utf-8"))
    sizes = [
        max(peak["requested_bytes"] for peak in rank["peaks"].values()) for rank in found["ranks"]
    ]
    return ", ".join(dict.fromkeys(map(format_size, sizes)))


def table() -> str:
    """Returns the table in Markdown."""
    rows = [
        f"| {way} | " + " | ".join(peaks(way, world) for world in WORLDS) + " |" for way in WAYS
    ]
    heads = " | ".join(f"{world} ranks" for world in WORLDS)
    return "\n".join([f"| way | {heads} |", "|---|" + "---|" * len(WORLDS), *rows]) + "\n"


def main() -> None:
    """Writes the table into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
