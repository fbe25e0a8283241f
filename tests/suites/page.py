"""Makes docs/reference/reach.md of the results in tests/data/suites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run import DATA, ROOT, projects

PAGE = ROOT / "docs" / "reference" / "reach.md"
NOTHING = "nothing was allocated"
HEAD = """\
# Reach: the tests of other projects

`make suites` takes the tests of projects that know nothing of this plugin, at one commit each.
It runs them bare, and with `--attnmem-default "1 TiB"` on the backends `cpu`, `simulated` and
`null` (A100-80GB). This page is made of the results in `tests/data/suites`.

- *measured*: tests with a peak, of those that allocate on the device.
- *red*: tests that pass bare and fail with the plugin; the aim is none.

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
            counts = dict(found["rows"])
            counts.pop(NOTHING, None)
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
    text = HEAD + "\n".join(rows) + "\n"
    if reasons:
        text += "\n## Not enforced, and red\n\n| project | backend | tests | reason |\n"
        text += "|---|---|---|---|\n" + "\n".join(reasons) + "\n"
    if left:
        text += f"\nNot run yet: {', '.join(left)} (`tests/suites/projects.toml`).\n"
    return text


def results() -> dict[str, dict[str, Any]]:
    """Returns the recorded results by project."""
    found = {}
    for name in projects():
        path = Path(DATA / f"{name}.json")
        if path.exists():
            found[name] = json.loads(path.read_text("utf-8"))
    return found


if __name__ == "__main__":
    PAGE.write_text(page(results()), "utf-8")
