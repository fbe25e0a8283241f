"""Which lines real programs and documented uses run: ``python tests/suites/scope.py``.

Runs programs that users have, or that stand for theirs, on the simulated device under coverage, a
kind after another: ``--suite PROJECT`` adds the tests of a project of ``projects.toml``, in its
environment, ``--suite PROJECT.orders`` those of them that ``make order`` runs, ``--suite
NAME=FOLDER`` those of a folder, ``--libraries`` the models of ``make strangers``, in its
environment, and ``--only KIND …`` runs some again. What was found is kept in ``.venv-suites``.
``scope.md`` beside this file has, for each file, the lines of functions that each kind reached, the
functions that none reached, and the operators that asked for a rule; docs/evidence/scope.md has
the sums.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from inner_session import Part
from run import WORK, checkout, environment, is_for_null, link_packages, projects
from run import run as install

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FILE = WORK / "scope.json"
PACKAGE = ROOT / "pytest_attnmem"
PART = Part(ROOT / "docs" / "evidence" / "scope.md", "sums")
#: The folders that are asked about.
FOLDERS = (
    *("backends/simulated", "backends/null", "values"),
    *("plugin", "models", "sweep", "report"),
)
DEVICE = "simulated:A100-80GB"
#: The formats of a report.
FORMATS = ("html", "json", "markdown", "csv")
#: Seconds for one command.
PATIENCE = 3600
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
_ON = f"--attnmem-backend={DEVICE}"
_LIMIT = "--attnmem-default=1 TiB"
#: Options of ``make demo``, and commands of ``make figures``.
REPORTS = ("--attnmem-report", *(f"--attnmem-{one}={{out}}.{one}" for one in FORMATS))
FIGURES = (
    "sweep --kernel textbook,flash,ring:4 --d 64 --n 1024,4096 --backward --simulate --device H100"
    " --markdown {out}",
    "roofline --params 7e9 --layers 32 --d-model 4096 --heads 32 --batch 8",
)
#: The commands of each kind of programs, as arguments of Python.
KINDS: dict[str, list[list[str]]] = {
    "workloads": [
        ["tests/device_gate/programs.py", "simulated", "{out}", source]
        for source in ("workloads", "workloads_held_out", "programs", "gate_programs", "kernels")
    ],
    "regressions": [["tests/zoo/table.py", "simulated:H100"]],
    "growth": [["tests/growth/table.py", "simulated:H100"]],
    "published": [["tests/suites/scope.py", "--published"]],
    "examples": [
        [*_PYTEST, "examples", _ON],
        [*_PYTEST, "examples", "--ignore=examples/compiled", *REPORTS],
        [*_PYTEST, "tests/docs/test_walks.py"],
    ],
    "models": [[*_PYTEST, "tests/models"]],
    "figures": [["-m", "pytest_attnmem.cli", *command.split()] for command in FIGURES],
}
#: The models of libraries, on both backends, in the environment of ``make strangers``.
LIBRARIES = """
import sys
sys.path.insert(0, "tests/suites")
import strangers
for name in strangers.PROGRAMS:
    print(name, *(strangers.on(backend, name) for backend in strangers.BACKENDS), flush=True)
"""

#: Starts coverage in each process, and writes the operators that ask for a rule, a line each.
_START = """
import builtins, os, sys
import coverage
coverage.process_startup()
_NAME, _import = "pytest_attnmem.backends.simulated.operators.op_rules", builtins.__import__

def imported(*args, **kwargs):
    found = _import(*args, **kwargs)
    rules = sys.modules.get(_NAME)
    if hasattr(rules, "_is_complex"):
        builtins.__import__ = _import
        seen, rule_of = set(), rules._rule_of
        def noted(call):
            if call.op not in seen:
                seen.add(call.op)
                with open(os.environ["SCOPE_OPERATORS"], "a") as out:
                    out.write(call.op + chr(10))
            return rule_of(call)
        rules._rule_of = noted
    return found

builtins.__import__ = imported
"""
_SETTINGS = f"""
[run]
parallel = True
source = {PACKAGE}
data_file = %s/coverage
patch = _exit
    fork
concurrency = thread
disable_warnings = no-data-collected,module-not-imported,already-imported
"""


def run(
    name: str,
    commands: Sequence[Sequence[str]],
    folder: Path = ROOT,
    python: str | Path = sys.executable,
) -> dict[str, Any]:
    """Runs the commands of a kind; returns the lines that they reach, and operators."""
    import coverage

    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary, "sitecustomize.py").write_text(_START, "utf-8")
        settings = Path(temporary, "settings")
        settings.write_text(_SETTINGS % temporary, "utf-8")
        operators = Path(temporary, "operators")
        operators.touch()
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([temporary, str(ROOT)]),
            "COVERAGE_PROCESS_START": str(settings),
            "SCOPE_OPERATORS": str(operators),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        ended = []
        for command in commands:
            given = [part.format(out=Path(temporary, "out.json")) for part in command]
            try:
                done = subprocess.run(
                    [str(python), *given], check=False, cwd=folder, env=variables,
                    timeout=PATIENCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )  # fmt: skip
                ended.append(done.stdout.rstrip().rpartition("\n")[2][-200:])
            except subprocess.TimeoutExpired:
                ended.append("stopped")
            print(name, ended[-1], flush=True)
        data = coverage.Coverage(data_file=f"{temporary}/coverage", config_file=str(settings))
        data.combine()
        found = data.get_data()
        lines = {}
        for file in map(Path, found.measured_files()):
            if file.is_relative_to(PACKAGE):
                lines[file.relative_to(PACKAGE).as_posix()] = sorted(found.lines(str(file)) or [])
        return {
            "lines": lines,
            "operators": sorted(set(operators.read_text("utf-8").split())),
            "ended": ended,
        }


def of_project(name: str) -> dict[str, Any]:
    """Runs the tests of a project in its environment, on null if they need a GPU."""
    project = projects(orders=True)[name.removesuffix(".orders")] | projects().get(name, {})
    of, on_null = project["of"], is_for_null(project)
    tests, python = checkout(of, project), environment(of, project, "null" if on_null else "cpu")
    link_packages(project, tests, python)
    install(["uv", "pip", "install", "--quiet", "--python", str(python), "coverage"])
    on = f"--attnmem-backend=null:{DEVICE.partition(':')[2]}" if on_null else _ON
    return run(name, [[*_PYTEST, on, _LIMIT, *project["tests"]]], tests, python)


def published() -> None:
    """Runs each program of published numbers with the sizes of its first row."""
    sys.path.insert(0, str(ROOT / "tests" / "published"))
    sys.path.insert(0, str(ROOT / "tests" / "published" / "programs"))
    from importlib import import_module

    from tables import sources

    from pytest_attnmem.backends.registry import open_backend
    from pytest_attnmem.errors import ProgramRefused

    backend: Any = open_backend("simulated:H100")
    seen = set()
    for source in sources().values():
        for table in source.tables:
            key = (table.program, json.dumps(table.arguments, default=str))
            if key in seen or not table.rows or table.ranks or table.checkout or table.requirements:
                continue
            seen.add(key)
            module, _, name = table.program.partition(":")
            sizes = dict(zip(table.sizes, table.rows[0], strict=False))
            backend.simulation.restart()
            backend.name_device()
            try:
                with backend.world():
                    getattr(import_module(module), name)(**table.arguments, **sizes)
            except (Exception, ProgramRefused) as error:
                print(table.program, type(error).__name__, str(error)[:100])
    print(len(seen), "programs")


def files() -> Iterator[Path]:
    """Yields the files that are asked about."""
    for folder in FOLDERS:
        yield from sorted((PACKAGE / folder).rglob("*.py"))


def functions(file: Path) -> Iterator[tuple[str, range]]:
    """Yields the functions of a file and the lines of their bodies."""
    import ast

    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if len(node.body) > 1 and ast.get_docstring(node) else node.body[0]
            yield node.name, range(first.lineno, (node.end_lineno or 0) + 1)


def rows(
    found: Mapping[str, Any],
) -> Iterator[tuple[str, int, dict[str, int], list[tuple[str, int]]]]:
    """Yields each file, its lines, those of functions that each kind reached, and the idle ones.

    An idle function has its name and the lines of its body.
    """
    for file in files():
        name = file.relative_to(PACKAGE).as_posix()
        bodies = list(functions(file))
        inside = {line for _, body in bodies for line in body}
        reached = {kind: {*one["lines"].get(name, ())} & inside for kind, one in found.items()}
        every = set().union(*reached.values())
        idle = [(one, len(body)) for one, body in bodies if every.isdisjoint(body)]
        count = len(file.read_text("utf-8").splitlines())
        yield name, count, {kind: len(lines) for kind, lines in reached.items()}, idle


def table(found: Mapping[str, Any]) -> str:
    """Returns the whole table."""
    lines = [
        "# Lines of functions that real programs reach",
        "",
        "`python tests/suites/scope.py` wrote this page.",
        "",
        f"| file | lines | {' | '.join(found)} | functions that none reaches |",
        f"|{'---|' * (3 + len(found))}",
    ]
    for name, count, reached, idle in rows(found):
        counts = " | ".join(str(reached[kind] or "") for kind in found)
        lines.append(
            f"| {name} | {count} | {counts} | {', '.join(f'`{one}`' for one, _ in idle)} |"
        )
    operators = sorted({one for of in found.values() for one in of["operators"]})
    lines += ["", f"## {len(operators)} operators", "", ", ".join(f"`{one}`" for one in operators)]
    return "\n".join([*lines, ""])


def sums(found: Mapping[str, Any]) -> str:
    """Returns the rows of the page: what each kind reached."""
    every = list(rows(found))
    lines = ["| programs | lines of functions | files | operators |", "|---|---|---|---|"]
    for kind, of in found.items():
        counts = [reached[kind] for _, _, reached, _ in every]
        files_of = sum(map(bool, counts))
        lines.append(f"| {kind} | {sum(counts)} | {files_of} | {len(of['operators'])} |")
    operators = {one for of in found.values() for one in of["operators"]}
    total = sum(count for _, count, _, _ in every)
    idle = [lines for _, _, _, functions in every for _, lines in functions]
    together = f"Together they ask for the rules of {len(operators)} operators."
    reached_by_none = f"{len(idle)} functions of {sum(idle)} lines"
    told = f" Of {total} lines in {len(every)} files, no program reaches {reached_by_none}."
    lines += ["", together + told]
    return "\n".join([*lines, ""])


def main() -> None:
    """Runs the kinds and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--suite", action="append", default=[], metavar="PROJECT[.orders]|NAME=FOLDER"
    )
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--published", action="store_true")
    given = parser.parse_args()
    if given.published:
        return published()
    FILE.parent.mkdir(exist_ok=True)
    found = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for name, commands in KINDS.items():
        if given.only is None or name in given.only:
            found[name] = run(name, commands)
            FILE.write_text(json.dumps(found), "utf-8")
    if given.libraries:
        found["libraries"] = run("libraries", [["-c", LIBRARIES]])
        FILE.write_text(json.dumps(found), "utf-8")
    for each in given.suite:
        name, _, folder = each.partition("=")
        found[name] = (
            run(name, [[*_PYTEST, _ON, _LIMIT]], Path(folder)) if folder else of_project(name)
        )
        FILE.write_text(json.dumps(found), "utf-8")
    (HERE / "scope.md").write_text(table(found), "utf-8")
    PART.write(sums(found))
    return None


if __name__ == "__main__":
    main()
