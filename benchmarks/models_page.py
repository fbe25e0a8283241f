"""Writes the table of docs/how-to/whole-models.md: ``python benchmarks/models_page.py FOLDER``.

The folder has the output of ``attnmem model … --json`` as ``NAME.null`` and ``NAME.simulated``,
where a training step's name ends in ``-train`` or ``-ckpt``. Published formulas stand beside it.
Without a folder, it writes the table of public configs from the results of ``model_rows.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "whole-models.md"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"
_GIB = 1 << 30


def accelerate(found: dict[str, Any]) -> int:
    """Returns accelerate's estimate of training: the largest of its stages, two states of Adam.

    Of commands/estimate.py, ``estimate_training_usage``; without activations.
    """
    itemsize: int = found["sizes"]["itemsize"]
    parameters: int = found["parameters"]
    return 2 * itemsize * parameters


def deepspeed(found: dict[str, Any]) -> int:
    """Returns DeepSpeed's estimate of model states on one device without offload, 20 B each.

    Of runtime/zero/stage_1_and_2.py, ``estimate_zero2_model_states_mem_needs``.
    """
    return 20 * int(found["parameters"])


def megatron(found: dict[str, Any], checkpoint: bool) -> int:
    """Returns the weights' states in this recipe, and activations by Korthikanti et al. 2022.

    The paper's table 2: 34*s*b*h a layer without the attention's scores, 2*s*b*h if recomputed.
    """
    sizes = found["sizes"]
    kept = 2 if checkpoint else 34
    states = sum(found["terms"].get(term, 0) for term in ("weights", "optimizer state"))
    activations: int = kept * sizes["layers"] * sizes["B"] * sizes["N"] * sizes["hidden"]
    gradients = sizes["itemsize"] * int(found["parameters"])
    return int(states) + gradients + activations


def row(name: str, null: dict[str, Any], simulated: dict[str, Any]) -> str:
    """Returns a row of the table."""
    peak = null["peak_bytes"]
    estimates = ["", "", ""]
    if name.endswith(("-train", "-ckpt")):
        told = (accelerate(null), deepspeed(null), megatron(null, name.endswith("-ckpt")))
        estimates = [f"{one / _GIB:.2f} ({100 * (one - peak) / peak:+.0f} %)" for one in told]
    apart = [f"{simulated[kind] - null[kind]:,} B" for kind in ("peak_bytes", "reserved_bytes")]
    cells = [f"`{name}`", null["recipe"], f"{peak:,}", f"{peak / _GIB:.2f}", *apart, *estimates]
    return "| " + " | ".join(cells) + " |"


def configs() -> None:
    """Replaces the table of public configs; ``-`` where the simulation gave no number.

    Where neither gave one, both give the reason before its first colon: ``does not fit``.
    """
    null, simulated = (
        json.loads((RESULTS / f"models.{name}.json").read_text("utf-8"))
        for name in ("null", "simulated")
    )
    rows = ["| config | parameters | B, N | recipe | null, B | GiB | simulated − null |"]
    rows.append("|" + "---|" * 7)
    for key, found in null.items():
        name, recipe = key.split(", ")
        sizes = found["sizes"]
        at = ", ".join(str(sizes[symbol]) for symbol in "BN" if symbol in sizes)
        cells = [f"`{name}`", f"{found['parameters']:,}", at, recipe]
        other = simulated.get(key)
        if "reason" in found:
            reasons = [one["reason"].partition(":")[0] for one in (found, other or found)]
            cells += [reasons[0], "", reasons[1]]
        else:
            peak = found["peak_bytes"]
            apart = f"{other['peak_bytes'] - peak:,} B" if other else "-"
            cells += [f"{peak:,}", f"{peak / _GIB:.2f}", apart]
        rows.append("| " + " | ".join(cells) + " |")
    _write("<!-- configs begin -->", rows, "<!-- configs end -->")


def _write(begin: str, table: list[str], end: str) -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(begin)
    PAGE.write_text("\n".join([before + begin, *table, end]) + rest.partition(end)[2], "utf-8")


def main(folder: str) -> None:
    """Replaces the table of the page."""
    rows = []
    for path in sorted(Path(folder).glob("*.null")):
        runs = (path, path.with_suffix(".simulated"))
        rows.append(row(path.stem, *(json.loads(one.read_text("utf-8")) for one in runs)))
    heads = ("model", "recipe", "null, B", "GiB", "simulated − null, peak", "reserved")
    heads = (*heads, "accelerate", "DeepSpeed", "Megatron's paper")
    table = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *rows]
    _write(BEGIN, table, END)


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) > 1 else configs()
