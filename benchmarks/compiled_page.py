"""Writes ``docs/evidence/compiled.md`` from the bytes in ``benchmarks/compiled.json``.

``make compiled`` measures them first, with each release of PyTorch that has an environment.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from pytest_attnmem.units import format_size

RECORDED: Final = Path(__file__).with_name("compiled.json")
PAGE: Final = Path(__file__).parents[1] / "docs" / "evidence" / "compiled.md"

HEAD = """# Compiled modules

Peak memory of a training step of {count} common modules, eager and compiled by `torch.compile`, on
`null:A100-80GB`: requested bytes above the start, in bfloat16, with an input of [4, 2048, 1024], 16
heads, MLPs of width 4096 and 32000 classes. The step is a forward and a backward pass; the second
run counts, so compilation is outside. **Saved** is what is alive between the passes.

`make compiled` measures this with each release of PyTorch, and writes this page;
`benchmarks/compiled_modules.py` has the modules. To hold your own module to its eager memory, see
[compiled code](../reference/marker.md).

## PyTorch {release}

{more} of {count} need more memory compiled.

| module | eager | compiled | ratio | saved, eager | saved, compiled |
|---|---|---|---|---|---|
"""

CHANGES = """
## Releases

Modules whose compiled peak is not the same in {releases}, eager and compiled:

| module | {heads} |
|---|{rules}
"""

_WAYS: Final = ("eager", "compiled")
Row = dict[str, Any]


def render() -> str:
    """Returns the page."""
    recorded: dict[str, dict[str, Row]] = json.loads(RECORDED.read_text("utf-8"))
    newest = [*recorded][-1]
    rows = sorted(recorded[newest].items(), key=lambda row: -_ratio(row[1]))
    more = sum(_ratio(row) > 1 for _, row in rows)
    head = HEAD.format(count=len(rows), release=newest, more=more)
    return head + "".join(_line(name, row) for name, row in rows) + _changes(recorded)


def _line(name: str, row: Row) -> str:
    ratio = f"{float(_ratio(row)):.2f}"
    sizes = [_size(row, how, what) for what in ("peak", "saved") for how in _WAYS]
    cells = [name, *sizes[:2], f"**{ratio}**" if _ratio(row) > 1 else ratio, *sizes[2:]]
    return f"| {' | '.join(cells)} |\n"


def _size(row: Row, how: str, what: str = "peak") -> str:
    return format_size(row[how][what])


def _ratio(row: Row) -> Fraction:
    return Fraction(row["compiled"]["peak"], row["eager"]["peak"])


def _changes(recorded: dict[str, dict[str, Row]]) -> str:
    """Returns the table of modules whose compiled peak, as it is shown, differs by release."""
    lines = []
    for name in next(iter(recorded.values())):
        rows = [rows[name] for rows in recorded.values()]
        if len({_size(row, "compiled") for row in rows}) > 1:
            cells = [", ".join(_size(row, how) for how in _WAYS) for row in rows]
            lines.append(f"| {' | '.join([name, *cells])} |\n")
    releases = [*recorded]
    rules = "---|" * len(releases)
    heads = " | ".join(releases)
    named = f"{', '.join(releases[:-1])} and {releases[-1]}"
    return CHANGES.format(releases=named, heads=heads, rules=rules) + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
