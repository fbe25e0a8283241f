"""Measures the rows of docs/how-to/whole-models.md, all in one process, which imports torch once.

``attnmem run --device H200 -- benchmarks/model_rows.py null`` on a CUDA build of PyTorch, and
``python benchmarks/model_rows.py simulated:H200`` on any; transformers must be installed. A name of
a config measures that model alone. Results go to ``benchmarks/results/models.BACKEND.json``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pytest_attnmem import AttnMemError, model
from pytest_attnmem.models.sources import source_of

CONFIGS = Path(__file__).parents[1] / "examples" / "models" / "configs"
RESULTS = Path(__file__).parent / "results"

#: The inputs of models that do not read tokens alone, by the start of their name.
_INPUTS = {
    "whisper": ("input_features=float[B,80,3000]", "decoder_input_ids=long[B,N]<vocab"),
    "vit": ("pixel_values=float[B,3,224,224]",),
}
_RECIPES: dict[str, dict[str, Any]] = {
    "train": {"train": "adamw"},
    "train + checkpoint": {"train": "adamw", "checkpoint": True},
    "prefill": {},
}


def row(path: Path, recipe: str, backend: str) -> dict[str, Any]:
    """Returns the numbers of one model and recipe, or the reason why there are none."""
    name, cls = path.stem, json.loads(path.read_text("utf-8"))["architectures"][0]
    sizes = {"B": 8} if name.startswith("vit") else {"B": 1, "N": 1024}
    if name.startswith("whisper"):
        sizes = {"B": 4, "N": 448}
    inputs = next((made for start, made in _INPUTS.items() if name.startswith(start)), ())
    began = time.monotonic()
    try:
        found = model(
            source_of(f"transformers:{cls}", config=str(path)),
            inputs=inputs,
            backend=backend,
            dtype="bfloat16",
            sdpa="flash",
            **_RECIPES[recipe],
            **sizes,
        )
    except AttnMemError as error:
        return {"reason": str(error)}
    measured = found.measurement
    if not found.fits:
        reason = f"does not fit: {measured.out_of_memory}"
        return {"parameters": found.parameters, "sizes": dict(found.sizes), "reason": reason}
    return {
        "peak_bytes": found.peak_bytes,
        "reserved_bytes": measured.reserved_bytes,
        "parameters": found.parameters,
        "sizes": dict(found.sizes),
        "terms": found.terms,
        "seconds": round(time.monotonic() - began, 1),
    }


def main(backend: str, *names: str) -> None:
    """Writes the results of a backend; those of models that are not named stay."""
    path = RESULTS / f"models.{backend.partition(':')[0]}.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for config in sorted(CONFIGS.glob("*.json")):
        if names and config.stem not in names:
            continue
        for recipe in _RECIPES:
            rows[f"{config.stem}, {recipe}"] = found = row(config, recipe, backend)
            print(config.stem, recipe, found.get("seconds"), found.get("reason", ""), flush=True)
            text = json.dumps(rows, indent=1, sort_keys=True)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
