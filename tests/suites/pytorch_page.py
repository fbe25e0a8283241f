"""Makes docs/evidence/pytorch-suite.md of ``tests/data/suites/pytorch.json`` and the classes.

``tests/data/suites/pytorch_failures.toml`` says of each failure what it is, by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import tomllib
from pytorch import RESULTS, settings
from run import DATA, ROOT

PAGE = ROOT / "docs" / "evidence" / "pytorch-suite.md"
FAILURES = DATA / "pytorch_failures.toml"
#: What a failure may be, in the order of the columns.
CLASSES = {
    "defect": "the null device is wrong",
    "limit": "a documented limit of the null device",
    "value": "a value that nobody knows without a GPU",
    "drift": "the test is older than PyTorch: an API, a text or a number changed",
    "environment": "the machine: a package, a compiler or a debug symbol is not there",
}
HEAD = """\
# PyTorch's own tests of memory

`make pytorch-suite` takes the tests of PyTorch {tests} as they are, from Debian's source package,
and runs them with PyTorch {torch} on the null device. This page is made of the results
(`tests/data/suites/pytorch.json`) and of what each failure is (`pytorch_failures.toml`), which is
said by hand.

{table}

| class | meaning |
|---|---|
{meanings}

`test_fsdp_memory.py` holds numbers that PyTorch's authors read from a GPU: 340 MB after a forward
pass and 51 MB with checkpoints, to 1 MB, on each of two ranks. `test_fully_shard_memory.py` bounds
FSDP2's memory in each phase.

## Each failure

| test | class | why |
|---|---|---|
{failures}

## Skipped

| file | tests | reason |
|---|---|---|
{skipped}

## Left out

{left_out}
"""


def page(results: dict[str, Any], failures: dict[str, dict[str, list[str]]]) -> str:
    files = results["files"]
    return HEAD.format(
        tests=results["tests"],
        torch=results["torch"],
        table=table(files, failures),
        meanings=_rows(CLASSES.items()),
        failures=_rows(
            (f"`{file}`: `{test}`", *failures[file][test])
            for file, found in files.items()
            for test in found["failed"]
        ),
        skipped=_rows(
            (f"`{file}`", count, reason.replace("|", "\\|"))
            for file, found in files.items()
            for reason, count in found["skipped"].items()
        ),
        left_out="\n".join(
            f"- `{one['file']}`: {one['left_out']}."
            for one in settings()["run"]
            if "left_out" in one
        ),
    )


def table(files: dict[str, Any], failures: dict[str, dict[str, list[str]]]) -> str:
    """Returns the table of the files, with their failures by class."""
    names = ("file", "device", "passed", *CLASSES, "skipped")
    rows = []
    for file, found in files.items():
        counts = Counter(failures[file][test][0] for test in found["failed"])
        classes = [counts[name] for name in CLASSES]
        skipped = sum(found["skipped"].values())
        rows.append((f"`{file}`", f"null:{found['device']}", found["passed"], *classes, skipped))
    total = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)]
    rows.append(("**all**", "", *(f"**{number}**" for number in total)))
    return f"{_rows([names])}\n{'|---' * len(names)}|\n{_rows(rows)}"


def _rows(rows: Any) -> str:
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def recorded() -> tuple[dict[str, Any], dict[str, dict[str, list[str]]]]:
    """Returns the results, and what each failure is: its class and why, by file and test."""
    results = json.loads(RESULTS.read_text("utf-8"))
    return results, tomllib.loads(FAILURES.read_text("utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(*recorded()), "utf-8")
