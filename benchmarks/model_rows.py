"""Measures the rows of docs/evidence/models.md, all in one process, which imports torch once.

``attnmem run --device H200 -- benchmarks/model_rows.py null`` on a CUDA build of PyTorch, and
``python benchmarks/model_rows.py simulated:H200`` on any; transformers must be installed. Names of
models measure these alone. Results go to ``benchmarks/results/models.BACKEND.json``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples" / "models"
sys.path.insert(0, str(EXAMPLES))

from gpt import Attention, Config  # noqa: E402  # examples/models is no package

from pytest_attnmem import AttnMemError, model  # noqa: E402
from pytest_attnmem.measurement.environment import kept_workspaces  # noqa: E402
from pytest_attnmem.models.sources import source_of  # noqa: E402

CONFIGS = EXAMPLES / "configs"
RESULTS = Path(__file__).parent / "results"

#: The inputs of models that do not read tokens alone, by the start of their name.
_INPUTS = {
    "whisper": ("input_features=float[B,80,3000]", "decoder_input_ids=long[B,N]<vocab"),
    "vit": ("pixel_values=float[B,3,224,224]",),
    "attention": (f"x=float[B,N,{Config().n_embd}]",),
}
_RECIPES: dict[str, dict[str, Any]] = {
    "train": {"train": "adamw"},
    "train + checkpoint": {"train": "adamw", "checkpoint": True},
    "prefill": {},
}
#: The attention of a GPT, which has no config: its name, and the dtype of its one recipe.
BLOCKS = {"attention-bfloat16": "bfloat16", "attention-float32": "float32"}


def sizes_of(name: str) -> dict[str, int]:
    """Returns the sizes of a model's inputs."""
    if name.startswith("vit"):
        return {"B": 8}
    return {"B": 4, "N": 448} if name.startswith("whisper") else {"B": 1, "N": 1024}


def row(name: str, source: Callable[[], Any], backend: str, **recipe: Any) -> dict[str, Any]:
    """Returns the numbers of one model and recipe, or the reason why there are none."""
    inputs = next((made for start, made in _INPUTS.items() if name.startswith(start)), ())
    began = time.process_time()
    try:
        found = model(source, inputs=inputs, backend=backend, **recipe, **sizes_of(name))
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
        "seconds": round(time.process_time() - began, 1),
    }


def main(backend: str, *names: str) -> None:
    """Writes the results of a backend; those of models that are not named stay."""
    path = RESULTS / f"models.{backend.partition(':')[0]}.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else {}
    runs: dict[str, Callable[[], dict[str, Any]]] = {}
    for config in sorted(CONFIGS.glob("*.json")):
        cls = json.loads(config.read_text("utf-8"))["architectures"][0]
        source = source_of(f"transformers:{cls}", config=str(config))
        for name, recipe in _RECIPES.items():
            chosen = {"dtype": "bfloat16", "sdpa": "flash", **recipe}
            runs[f"{config.stem}, {name}"] = partial(row, config.stem, source, backend, **chosen)
    for block, dtype in BLOCKS.items():
        chosen = {"dtype": dtype, **_RECIPES["train"]}
        runs[f"{block}, train"] = partial(
            row, block, partial(Attention, Config()), backend, **chosen
        )
    for key, run in runs.items():
        if names and key.partition(",")[0] not in names:
            continue
        rows[key] = found = run()
        print(key, found.get("seconds"), found.get("reason", ""), flush=True)
        text = json.dumps(rows, indent=1, sort_keys=True)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    with kept_workspaces():  # as the command does, so that the workspaces are beside the peak
        main(*sys.argv[1:])
