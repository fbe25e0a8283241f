"""Writes the tables of docs/evidence/models.md: ``python benchmarks/models_page.py``.

Their numbers are those of ``model_rows.py`` and ``fakegpu_rows.py``, in ``benchmarks/results``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from published_formulas import FORMULAS

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "models.md"
RESULTS = Path(__file__).parent / "results"
_GIB = 1 << 30


def exact() -> Iterator[str]:
    """Yields the table of both backends; ``does not fit`` where they give that reason."""
    null, simulated = _results("models.null"), _results("models.simulated")
    yield "| config | parameters | B, N | recipe | null, B | GiB | simulated − null | reserved |"
    yield "|" + "---|" * 8
    for key, found in null.items():
        name, recipe = key.split(", ")
        other = simulated[key]
        sizes = ", ".join(
            str(found["sizes"][symbol]) for symbol in "BN" if symbol in found["sizes"]
        )
        cells = [f"`{name}`", f"{found['parameters']:,}", sizes, recipe]
        if "reason" in found:
            reasons = [one["reason"].partition(":")[0] for one in (found, other)]
            cells += [reasons[0], "", reasons[1], ""]
        else:
            peak = found["peak_bytes"]
            apart = (other[kind] - found[kind] for kind in ("peak_bytes", "reserved_bytes"))
            cells += [f"{peak:,}", f"{peak / _GIB:.2f}", *(f"{bytes_:,} B" for bytes_ in apart)]
        yield _row(cells)


def estimates() -> Iterator[str]:
    """Yields the table of published estimates with their errors, and a row of these errors."""
    heads = [*FORMULAS, "FakeGPU"]
    yield _row(["config", "recipe", "null", *heads])
    yield "|" + "---|" * (3 + len(heads))
    errors: dict[str, list[float]] = {head: [] for head in heads}
    fakegpu = _results("fakegpu")["rows"]
    for key, found in _results("models.null").items():
        if "peak_bytes" not in found:
            continue
        name, recipe = key.split(", ")
        peak = found["peak_bytes"]
        told = {head: formula(found, name, recipe) for head, formula in FORMULAS.items()}
        told["FakeGPU"] = fakegpu.get(key, {}).get("peak_bytes")
        cells = []
        for head, bytes_ in told.items():
            if bytes_ is None:
                cells.append("")
                continue
            error = 100 * (bytes_ - peak) / peak
            errors[head].append(abs(error))
            cells.append(f"{_whole(_size(bytes_))} {_whole(f'({error:+.1f} %)')}")
        yield _row([f"`{name}`", recipe, _size(peak), *cells])
    spread = (f"{median(found):.1f} %, {max(found):.0f} %" for found in errors.values())
    yield _row(["", "", "error: median, largest", *spread])


def _size(bytes_: int) -> str:
    return f"{bytes_ / _GIB:.2f} GiB" if bytes_ >= _GIB else f"{bytes_ / (1 << 20):.1f} MiB"


def _whole(text: str) -> str:
    """Returns a text that is not broken over two lines."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def render(page: str) -> str:
    """Returns the page with both tables."""
    for name, table in (("configs", exact()), ("estimates", estimates())):
        before, begin, rest = page.partition(f"<!-- {name} begin -->")
        _, end, after = rest.partition(f"<!-- {name} end -->")
        page = "\n".join([before + begin, *table, end + after])
    return page


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text("utf-8")), "utf-8")
