"""Runs the programs of published numbers again, on null: ``make published``.

``python tests/published/run.py [--new] [SOURCE ...]`` runs some sources, or with ``--new`` their
tables that have no result of what they say now. Each table has a version of torch, whose CUDA build
is installed by uv in ``.venv-null-VERSION``, and maybe other packages, which go into a folder of
``.venv-published``, or a checkout of the code that it runs: ``SUITES_MIRROR`` names a folder with
clones, ``OWNER+NAME/repo``, for a machine that does not reach the repositories. Results go to
``tests/data/published/SOURCE.json``, and ``page.py`` makes docs/evidence/real-gpus.md of them.

A new source is a copy of a file of ``sources`` with its numbers as they stand there, and a program
in ``programs`` that does the same work. What differs needs a ``reason``, and what cannot be run
says why in ``not_comparable``. ``fast`` tables are run by tests/null/test_published.py on any
PyTorch.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tables import DATA, HERE, ROOT, Table, results, sources

PACKAGES = ROOT / ".venv-published"
#: Seconds for one process.
PATIENCE = 1800


def python_of(torch: str) -> Path:
    """Returns the Python of an environment with a CUDA build of torch."""
    folder = ROOT / f".venv-null-{torch}"
    python = folder / "bin" / "python"
    if not folder.exists():
        run(["uv", "venv", "--quiet", str(folder)])
        install = ["uv", "pip", "install", "--quiet", "--python", str(python)]
        run([*install, f"torch==={torch}", "numpy"])
        run([*install, "--editable", str(ROOT)])
    return python


def paths_of(table: Table, python: Path) -> list[str]:
    """Returns folders of the packages and of the checkout that a table needs."""
    return [folder for folder in (packages_of(table, python), checkout_of(table)) if folder]


def checkout_of(table: Table) -> str:
    """Returns the folder of a repository at one commit, or of some paths there, with its code."""
    repository, _, rest = table.checkout.partition("@")
    commit, _, paths = rest.partition(":")
    name = repository.replace("/", "+")
    folder = PACKAGES / "-".join([name, commit[:8], *(Path(path).name for path in paths.split())])
    if repository and not folder.exists():
        mirror, clone = os.environ.get("SUITES_MIRROR"), PACKAGES / f"{name}.git"
        if mirror:
            clone = Path(mirror) / name / "repo"
        elif not clone.exists():
            url = f"https://github.com/{repository}"
            run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", url, str(clone)])
        folder.mkdir(parents=True)
        git = ["git", f"--git-dir={clone}", f"--work-tree={folder}"]
        with tempfile.TemporaryDirectory() as index:
            variables = {**os.environ, "GIT_INDEX_FILE": str(Path(index, "index"))}
            files = paths.split() or ["."]
            run([*git, "checkout", "--quiet", commit, "--", *files], cwd=folder, env=variables)
    return str(folder) if repository else ""


def packages_of(table: Table, python: Path) -> str:
    """Returns the folder of the packages that a table needs, without what they depend on."""
    if not table.requirements:
        return ""
    name = re.sub(r"[^\w.-]+", "-", "+".join([table.rerun, *table.requirements]))
    folder = PACKAGES / name
    if not folder.exists():
        install = ["uv", "pip", "install", "--quiet", "--no-deps", "--python", str(python)]
        run([*install, "--target", str(folder), *table.requirements])
    return str(folder)


def run(command: list[str], **options: Any) -> None:
    subprocess.run(command, check=True, **options)


def execute(python: Path, tables: list[Table], packages: list[str]) -> list[dict[str, Any] | str]:
    """Returns what the programs of tables read on one device, or why one failed."""
    tasks = [(number, task) for number, table in enumerate(tables) for task in table.tasks()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.json"
        path.write_text(json.dumps([task for _, task in tasks], default=float), "utf-8")
        options = ["--device", tables[0].device, "--values-limit", "1e9"]
        if tables[0].ranks:
            options += ["--ranks", str(tables[0].ranks), "--rank", "0"]
        program = ["--", str(HERE / "execute.py"), str(path), folder]
        paths = [*packages, str(ROOT), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [str(python), "-m", "pytest_attnmem.cli", "run", *options, *program],
            capture_output=True, text=True, check=False, timeout=PATIENCE * len(tasks),
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "TORCH_CUBLAS_WORKSPACE_CACHE": "1",  # as before PyTorch 2.14
                "PYTHONDONTWRITEBYTECODE": "",
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                **tables[0].environment,
            },
        )  # fmt: skip
        answers: list[dict[str, Any] | str] = [{"rows": []} for _ in tables]
        for task, (number, _) in enumerate(tasks):
            known, failed = Path(folder, f"{task}.json"), Path(folder, f"{task}.txt")
            before = answers[number]
            if isinstance(before, str):
                continue
            if known.exists():
                found = json.loads(known.read_text("utf-8"))
                answers[number] = {**found, "rows": before["rows"] + found["rows"]}
            else:
                text = failed.read_text("utf-8") if failed.exists() else done.stderr
                answers[number] = text[-2000:] or "it ended"
        return answers


def groups(tables: list[Table]) -> list[list[Table]]:
    """Returns the tables that one environment and one device run, together."""
    found: dict[str, list[Table]] = {}
    for table in tables:
        found.setdefault(json.dumps(table.where(), sort_keys=True), []).append(table)
    return [*found.values()]


def main(words: list[str]) -> None:
    """Runs the named sources, or all."""
    DATA.mkdir(parents=True, exist_ok=True)
    only_new = "--new" in words
    names = [word for word in words if word != "--new"]
    for name, source in sources().items():
        if names and name not in names:
            continue
        known = results(name)
        wanted = [
            table
            for table in source.tables
            if not table.not_comparable and not (only_new and table.key() in known)
        ]
        for tables in groups(wanted):
            python = python_of(tables[0].rerun)
            answers = execute(python, tables, paths_of(tables[0], python))
            for table, answer in zip(tables, answers, strict=True):
                if isinstance(answer, str):
                    print(f"{name}: {table.what}: {answer}", flush=True)
                else:
                    known[table.key()] = answer
                    report(name, table, answer["rows"])
            keys = [table.key() for table in source.tables]
            kept = {key: known[key] for key in keys if key in known}
            lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in kept.items())
            (DATA / f"{name}.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


def report(name: str, table: Table, rows: list[list[Any]]) -> None:
    """Prints how many numbers of a table are equal, and those that are not."""
    pairs = table.compared(rows)
    equal = sum(pair.equal for pair in pairs)
    print(f"{name}: {table.what}: {equal} of {len(pairs)}", flush=True)
    for pair in pairs:
        if not pair.equal:
            print(f"  {pair.sizes} {pair.name}: {pair.published}, here {pair.found}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
