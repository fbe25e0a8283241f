"""Makes docs/evidence/reach.md of the results in tests/data/suites."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from run import DATA, ROOT, projects

PAGE = ROOT / "docs" / "evidence" / "reach.md"
NOTHING = "nothing was allocated"
HEAD = """\
# Reach: the tests of other projects

`make suites` takes the tests of projects that know nothing of this plugin, at one commit each.
It runs them bare, and with `--attnmem-default "1 TiB"` on the backends `cpu`, `simulated` and
`null` (A100-80GB), with the extra `[cudnn]` for the convolutions of `simulated`. This page is made
of the results in `tests/data/suites`.

- *measured*: tests with a peak, of those that allocate on the device and do not fail bare.
- *red*: tests that pass bare and fail with the plugin. Without a GPU no test of a Triton library
  passes bare; each of its tests that fails is red.
- *seconds*: wall-clock time on two cores that did other work too, so no measure of the backends;
  [performance](performance.md) compares their speed.

| project | backend | tests that pass bare | measured | not enforced | red | seconds (bare) |
|---|---|---|---|---|---|---|
"""


def page(results: dict[str, dict[str, Any]]) -> str:
    """Returns the page; ``results`` has the files of the projects by name."""
    rows, reasons = [], []
    for name, result in results.items():
        ways = result["ways"]
        bare = ways["bare"]
        for way, found in ways.items():
            if way == "bare":
                continue
            counts = allocating(found["rows"])
            measured = counts.pop("measured", 0)
            others = sum(counts.values())
            share = f" ({100 * measured // (measured + others)} %)" if measured + others else ""
            cells = (
                *(name, way, bare["passed"], f"{measured}{share}", others, len(found["red"])),
                f"{found['seconds']} ({bare['seconds']})",
            )
            rows.append(f"| {' | '.join(map(str, cells))} |")
            reasons += [f"| {name} | {way} | {count} | {why} |" for why, count in counts.items()]
            reasons += [f"| {name} | {way} | red | {test} |" for test in found["red"]]
    left = [name for name in projects() if name not in results]
    text = HEAD + "\n".join(rows) + "\n\n## In all\n\n"
    for way in ("simulated", "null"):
        count, total = in_all(results, way)
        text += f"- {way}: {count} of {total} tests that allocate are measured.\n"
    if reasons:
        text += "\n## Not enforced, and red\n\n| project | backend | tests | reason |\n"
        text += "|---|---|---|---|\n" + "\n".join(reasons) + "\n"
    parts = [
        f"- {name}: {project['left_out']}."
        for name, project in projects().items()
        if "left_out" in project
    ]
    text += "\n## Left out\n\nOf the files that are run (`tests/suites/projects.toml`):\n\n"
    text += "\n".join(parts) + "\n"
    if left:
        text += f"\nNot run yet: {', '.join(left)} (`tests/suites/projects.toml`).\n"
    return text


def in_all(results: dict[str, dict[str, Any]], way: str) -> tuple[int, int]:
    """Returns how many tests of all projects are measured, of how many that allocate."""
    counts = Counter[str]()
    for result in results.values():
        counts.update(allocating(result["ways"].get(way, {}).get("rows", {})))
    return counts["measured"], counts.total()


def allocating(rows: dict[str, int]) -> dict[str, int]:
    """Returns the rows without those of tests that allocate nothing on the device.

    Such a test may have run again, with its tensors on the CPU; its row says why.
    """
    return {why: count for why, count in rows.items() if not why.startswith(NOTHING)}


def results() -> dict[str, dict[str, Any]]:
    found = {}
    for name in projects():
        path = Path(DATA / f"{name}.json")
        if path.exists():
            found[name] = json.loads(path.read_text("utf-8"))
    return found


def written() -> str:
    return page(results()) + strangers(json.loads((DATA / "strangers.json").read_text("utf-8")))


def strangers(found: dict[str, Any]) -> str:
    """Returns the section of the programs of libraries, ``strangers.py``."""
    null, simulated = "null:H100", "simulated:H100"
    lines, counts = [], Counter[str]()
    for name, row in found["programs"].items():
        told = row[simulated]
        if isinstance(row[null], str):
            peak, told = "", f"no number of null: {row[null]}"
        else:
            peak = f"{row[null][0]:,}"
            told = told if isinstance(told, str) else "equal" if told == row[null] else "wrong"
        counts[told.partition(":")[0]] += 1
        lines.append(f"| {name.replace('_', ' ')} | {row['library']} | {peak} | {told} |")
    head = f"""
## Programs of libraries

`tests/suites/strangers.py` runs models of libraries that know nothing of this package, as their
READMEs call them, in two steps of training or a search. *Equal* are the peak, allocated, reserved
and retained bytes of `{simulated}` and `{null}`, on torch {found["torch"]}.

{counts["equal"]} of {len(lines)} programs are equal, {counts["wrong"]} are wrong. Null has no
number of {counts["no number of null"]}, and simulated refuses {counts["refused"]} more.

| program | library | peak on null, bytes | simulated |
|---|---|---:|---|
"""
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
