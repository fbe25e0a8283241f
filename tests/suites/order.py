"""Runs the tests of other projects in many orders with one baseline: ``make order``.

``python tests/suites/order.py [PROJECT ...]`` runs some projects: on the CPU, or on the null device
if they need a GPU. Each is run bare, then with ``--attnmem-update all``, and then plain: twice as
it is, three times in random order, by two workers, half of its tests, and a sample of its tests
alone. No row may differ from its entry, and no test may end otherwise than bare. Results go to
``tests/data/suites/order``, and make docs/evidence/order.md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from run import DATA, PATIENCE, ROOT, WORK, checkout, environment, is_for_null, outcomes, projects
from run import run as command

RESULTS = DATA / "order"
PAGE = ROOT / "docs" / "evidence" / "order.md"
#: The backend of projects that need a GPU.
GPU = "null:H100"
#: The most tests that run alone, and the seconds after which no more of them start.
SAMPLE = 50
ALONE_S = 1800
#: The runs without the plugin that tell whether tests end otherwise by themselves.
BARE = 8
SIZES = {"sample": SAMPLE, "bare": BARE, "gpu": GPU}
HEAD = """\
# Any order: the tests of other projects with one baseline

`make order` records a baseline of the tests of other projects with `--attnmem-update all`, and runs
the unchanged tests again: twice as they are, three times in random order, by two workers, half of
them, and up to {sample} of them alone. This page is made of the results in
`tests/data/suites/order`.

- *backend*: the CPU, or {gpu} for tests that need a GPU.
- *alone*: tests that ran alone, as many as started in 4 to 30 minutes.
- *entries*: rows of the update that have a number. *refused*: rows that have none, though the test
  passed and allocated memory.
- *compared*: rows of the later runs that have an entry. *red*, *improved*: those that
  differ from it.
- *other*: tests that end otherwise than without the plugin, in any run; where no test
  passes without it, for want of a GPU, those that fail.
- *bare*: tests that end otherwise in one of {bare} more runs without it, such as
  comparisons of random numbers; they are run where the column before is not 0.

| project | backend | alone | entries | refused | compared | red | improved | other | bare |
|---|---|---|---|---|---|---|---|---|---|
"""


class Suite:
    """The tests of one project, in its environment."""

    def __init__(self, name: str, project: dict[str, Any]) -> None:
        self.name = name
        self.tests = checkout(project["of"], project)
        self.backend, build = (GPU, "null") if is_for_null(project) else ("cpu", "cpu")
        self.python = environment(project["of"], project, build)
        self.arguments = project["tests"]
        self.folder = WORK / name / "order"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.baseline = self.folder / "baseline.json"
        install = ["uv", "pip", "install", "--quiet", "--python", str(self.python)]
        command([*install, "pytest-xdist"])

    def run(self, label: str, *options: str, shuffle: str = "") -> tuple[dict[str, str], list[Any]]:
        """Returns the outcome of each test, and the rows."""
        junit, rows = self.folder / f"{label}.xml", self.folder / f"{label}.json"
        rows.unlink(missing_ok=True)
        shared = ["-q", "-p", "no:cacheprovider", "-p", "shuffled", f"--junitxml={junit}"]
        bare = label.startswith("bare")
        ours = ["-p", "no:attnmem"] if bare else [f"--attnmem-json={rows}"]
        if not bare:
            ours.append(f"--attnmem-backend={self.backend}")
        if label == "update" or (not bare and self.baseline.exists()):
            ours.append(f"--attnmem-baseline={self.baseline}")
        paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent), str(self.tests)])
        with (self.folder / f"{label}.log").open("w") as log:
            ended = subprocess.run(
                [str(self.python), "-m", "pytest", *shared, *ours, *self.arguments, *options],
                check=False, cwd=self.tests, stdout=log, stderr=log, timeout=PATIENCE,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": paths, "SHUFFLE": shuffle},
            )  # fmt: skip
        if ended.returncode not in (0, 1):
            raise SystemExit(f"{self.name} did not run: see {log.name}")
        found = json.loads(rows.read_text("utf-8"))["results"] if rows.exists() else []
        return outcomes(junit), found

    def entries(self) -> list[dict[str, Any]]:
        """Returns the entries of the baseline, which is not written where nothing has a number."""
        if not self.baseline.exists():
            return []
        found: list[dict[str, Any]] = json.loads(self.baseline.read_text("utf-8"))["entries"]
        return found


def measure(name: str, project: dict[str, Any]) -> dict[str, Any]:
    """Returns what became of the tests of a project in every order."""
    suite = Suite(name, project)
    suite.baseline.unlink(missing_ok=True)
    needs_gpu = is_for_null(project)  # bare, its tests fail
    bare = {} if needs_gpu else suite.run("bare")[0]
    recorded, made = suite.run("update", "--attnmem-update=all")
    runs = {"update": recorded}
    rows: dict[str, list[Any]] = {}
    plans: list[tuple[str, list[str], str]] = [("plain 1", [], ""), ("plain 2", [], "")]
    plans += [(f"random {seed}", [], f"order {seed}") for seed in (1, 2, 3)]
    plans += [("two workers", ["-n", "2"], ""), ("half", [], "half 1")]
    for label, options, shuffle in plans:
        runs[label], rows[label] = suite.run(label.replace(" ", "-"), *options, shuffle=shuffle)
    nodeids = sorted({entry["test"] for entry in suite.entries()})
    chosen = random.Random(0).sample(nodeids, min(SAMPLE, len(nodeids)))
    end = time.monotonic() + ALONE_S
    alone = 0
    while alone < len(chosen) and time.monotonic() < end:
        label = f"alone {alone}"
        runs[label], rows[label] = suite.run(f"alone-{alone}", shuffle=f"only {chosen[alone]}")
        alone += 1
    if needs_gpu:
        bare = {test: "passed" if how == "failed" else how for test, how in recorded.items()}
    states = Counter(row["baseline_state"] for found in rows.values() for row in found)
    unenforced = [
        row
        for row in made
        if row["outcome"] == "not enforced" and not row["reason"].startswith(_NO_NUMBER)
    ]
    other = sorted(
        f"{label}: {test} {outcome}"
        for label, found in runs.items()
        for test, outcome in found.items()
        if bare.get(test, outcome) != outcome
    )
    more = BARE if other and not needs_gpu else 0
    again = [suite.run(f"bare-{place}")[0] for place in range(more)]
    without = sorted(
        {
            f"{test} {outcome}"
            for found in again
            for test, outcome in found.items()
            if bare.get(test, outcome) != outcome
        }
    )
    return {
        "backend": suite.backend,
        "alone": alone,
        "entries": len(suite.entries()),
        "refused": [f"{row['nodeid']}: {row['reason']}" for row in unenforced],
        "compared": sum(states.values()) - states["new"] - states[""],
        "red": _named(rows, "regressed"),
        "improved": _named(rows, "improved"),
        "other": other,
        "other_without": without,
    }


#: Rows without memory, or of a test that says nothing about memory.
_NO_NUMBER = ("nothing was allocated", "the test failed", "skipped", "xfailed")


def _named(rows: dict[str, list[Any]], state: str) -> list[str]:
    return sorted(
        f"{label}: {row['nodeid']} {row['region']} {row['reason']}"
        for label, found in rows.items()
        for row in found
        if row["baseline_state"] == state
    )


def page() -> str:
    lines = []
    for path in sorted(RESULTS.glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        counts = [len(found[kind]) for kind in ("red", "improved", "other", "other_without")]
        cells = [path.stem, found["backend"], found["alone"], found["entries"]]
        cells += [len(found["refused"]), found["compared"], *counts]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    text = HEAD.format(**SIZES) + "\n".join(lines) + "\n"
    text += "\nLeft out, of the files that are run:\n\n"
    found = projects(orders=True)
    ran = [name for name in found if (RESULTS / f"{name}.json").exists()]
    parts = [(name, found[name]["left_out"]) for name in ran if "left_out" in found[name]]
    text += "".join(f"- {name}: {what}.\n" for name, what in parts)
    if left := [name for name in found if name not in ran]:
        text += f"\nNot run yet: {', '.join(left)}.\n"
    return text


def main(names: list[str]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, project in projects(orders=True).items():
        if names and name not in names:
            continue
        text = json.dumps(measure(name, project), indent=1)
        (RESULTS / f"{name}.json").write_text(text + "\n", "utf-8")
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
