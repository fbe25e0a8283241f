"""Writes the tables of ``docs/evidence/ranks.md``: peaks of one step, by the way of sharding it.

Run it with the Python of a CUDA build: ``python benchmarks/ranks_page.py``. The name of a table,
``ways``, ``estimate``, ``trainer`` or ``titan``, writes that one alone. ``trainer`` needs
transformers and accelerate, and ``titan`` torchtitan.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pytest_attnmem.units import format_distinct, format_size

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "evidence" / "ranks.md"
PROGRAM, TRAINER = HERE / "ranks_program.py", HERE / "ranks_trainer_program.py"
ASSETS = HERE / "ranks_titan_assets.py"
#: torchtitan's own entry: two steps of its debug model, a Llama of 6 layers of width 256.
TITAN = (
    *("-m", "torchtitan.train", "--module", "llama3", "--config", "llama3_debugmodel"),
    *("--training.seq_len", "256", "--training.local_batch_size", "2", "--training.steps", "2"),
    "--training.disable_cuda_graphs",
)
TITAN_WAYS = {
    "FSDP2": (),
    "FSDP2, tensor parallelism of 2": ("--parallelism.tensor_parallel_degree", "2"),
}
WAYS = ("DDP", "ZeRO-1", "FSDP1", "FSDP2", "HSDP")
WORLDS = (8, 1024)


def ran(
    world: int, *program: object, workspaces: bool = True, prepared: Path | None = None
) -> tuple[list[int], str]:
    """Returns the requested peak of the first and the last rank, and what the first printed.

    ``prepared`` is a script that writes what the program needs into the folder where it runs.
    """
    switch = {} if workspaces else {"CUBLAS_WORKSPACE_CONFIG": ":0:0"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        if prepared is not None:
            subprocess.run([sys.executable, prepared, folder], check=True)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", "H100"),
                *("--ranks", str(world), "--json", str(path), "--", *map(str, program)),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **switch},
        )
        found = json.loads(path.read_text("utf-8"))
    sizes = [
        max(peak["requested_bytes"] for peak in rank["peaks"].values()) for rank in found["ranks"]
    ]
    return sizes, done.stdout


def ways() -> Iterator[str]:
    """Yields a row for each way: the peaks of the first and the last rank, or one if equal."""
    yield "| way | " + " | ".join(f"{world} ranks" for world in WORLDS) + " |"
    yield "|---|" + "---|" * len(WORLDS)
    for way in WAYS:
        cells = [
            ", ".join(dict.fromkeys(map(format_size, ran(world, PROGRAM, way)[0])))
            for world in WORLDS
        ]
        yield f"| {way} | " + " | ".join(cells) + " |"


def estimate() -> Iterator[str]:
    """Yields a row for each world: FSDP2's peak, and the estimate of PyTorch's tracker."""
    yield "| ranks | peak | without cuBLAS workspaces | `FSDPMemTracker` | of the second |"
    yield "|---|---|---|---|---|"
    for world in WORLDS:
        whole = max(ran(world, PROGRAM, "FSDP2")[0])
        least = max(ran(world, PROGRAM, "FSDP2", workspaces=False)[0])
        told = int(ran(world, PROGRAM, "FSDP2", "estimate")[1].split()[-1])
        sizes = " | ".join(map(format_size, (whole, least, told)))
        share = (told * 1000 // least + 5) // 10
        yield f"| {world} | {sizes} | {share} % |"


def trainer() -> Iterator[str]:
    """Yields a row for each version of FSDP under transformers' Trainer."""
    yield "| FSDP | rank 0 | rank 7 |"
    yield "|---|---|---|"
    for version in (1, 2):
        first, last = format_distinct(*ran(8, TRAINER, version)[0])
        yield f"| {version} | {first} | {last} |"


def titan() -> Iterator[str]:
    """Yields a row for each way to share torchtitan's model; the first run of each compiles."""
    yield "| way | rank 0 | rank 7 |"
    yield "|---|---|---|"
    for way, options in TITAN_WAYS.items():
        ran(8, *TITAN, *options, prepared=ASSETS)
        first, last = format_distinct(*ran(8, *TITAN, *options, prepared=ASSETS)[0])
        yield f"| {way} | {first} | {last} |"


TABLES = {"ways": ways, "estimate": estimate, "trainer": trainer, "titan": titan}


def main() -> None:
    """Writes the tables that the arguments name, or all, into the page."""
    for name in sys.argv[1:] or TABLES:
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        table = "\n".join(TABLES[name]()) + "\n"
        before, _, rest = PAGE.read_text("utf-8").partition(start)
        PAGE.write_text(before + start + table + end + rest.partition(end)[2], "utf-8")


if __name__ == "__main__":
    main()
