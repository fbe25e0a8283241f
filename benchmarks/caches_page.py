"""Writes the table of KV caches in docs/evidence/models.md.

``python benchmarks/caches_page.py simulated:H100`` measures, as does ``attnmem run --device
H100 -- benchmarks/caches_page.py null``; both need transformers and hqq. Results go to
``benchmarks/results/caches.BACKEND.json``. Without an argument it writes the page.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "models.md"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- caches begin -->", "<!-- caches end -->"
B = 2
#: The lengths of the prompt and the numbers of new tokens. From 1024 on, the prompt is the peak.
LENGTHS = ((1024, 2), (1536, 2), (2048, 2), (2560, 2), (512, 9), (512, 16))


def measured(backend: str) -> dict[str, dict[str, Any]]:
    """Returns the formula of each cache, and its bytes and the peak by length."""
    sys.path.insert(0, str(ROOT / "examples" / "models"))
    from generation import CACHES, FORMULAS, generate, model_of

    from pytest_attnmem.api.attnmem import AttnMem

    device = "cpu" if backend == "cpu" else "cuda"

    def run(kind: str, N: int, T: int) -> dict[str, int]:
        attnmem = AttnMem()

        def program() -> Any:
            model = model_of(kind, device)
            with attnmem.region("generate", backend=backend):
                return generate(model, kind, B, N, T)

        attnmem.measure(program, backend=backend)
        found = attnmem.regions[-1].measurement
        if found is None or found.unmeasured is not None:
            raise SystemExit(f"{kind}: {found and found.unmeasured}")
        return {"peak_bytes": found.peak_bytes or 0, "retained_bytes": found.retained_bytes or 0}

    return {
        kind: {
            "formula": FORMULAS[kind],
            "bytes": {f"N={N} T={T}": run(kind, N, T) for N, T in LENGTHS},
        }
        for kind in CACHES
    }


def rows() -> list[str]:
    """Returns the lines of the table, from the results of both backends."""
    simulated, null = (
        json.loads((RESULTS / f"caches.{name}.json").read_text("utf-8"))
        for name in ("simulated", "null")
    )
    heads = ("cache", "holds, B", "at N=512 T=9", "peak, N=1024 T=2", "N=2048 T=2")
    table = ["| " + " | ".join((*heads, "grows as", "simulated − null")) + " |"]
    table.append("|" + "---|" * (len(heads) + 2))
    for kind, found in simulated.items():
        numbers = found["bytes"]
        peaks = [numbers[f"N={N} T=2"]["peak_bytes"] for N in (1024, 2048)]
        apart = max(
            abs(numbers[at][name] - other)
            for at, others in null[kind]["bytes"].items()
            for name, other in others.items()
        )
        cells = [f"{kind}", f"`{found['formula']}`"]
        cells += [f"{numbers['N=512 T=9']['retained_bytes']:,}", *(f"{one:,}" for one in peaks)]
        table.append("| " + " | ".join((*cells, f"N^{degree(numbers)}", f"{apart:,} B")) + " |")
    return table


def degree(numbers: dict[str, dict[str, int]]) -> int:
    """Returns the degree in N of the polynomial through the peaks of four prompts."""
    differences = [numbers[f"N={N} T=2"]["peak_bytes"] for N in (1024, 1536, 2048, 2560)]
    degree = -1
    while any(differences):
        differences = [after - before for before, after in pairwise(differences)]
        degree += 1
    return degree


def main(backend: str = "") -> None:
    """Measures on a backend, or writes the table."""
    if backend:
        path = RESULTS / f"caches.{backend.partition(':')[0]}.json"
        path.write_text(json.dumps(measured(backend), indent=1) + "\n", "utf-8")
        return
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, *rows(), END]) + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
