"""Runs the tests of other projects bare and with the plugin on each backend: ``make suites``.

``python tests/suites/run.py [PROJECT ...]`` runs some projects. Each has two environments, one with
the CUDA build of torch for the null device, made by uv in ``.venv-suites``, and a checkout of its
tests at one commit. ``SUITES_MIRROR`` names a folder with clones, ``OWNER+NAME/repo``, for a
machine that does not reach the repositories. Results go to ``tests/data/suites/PROJECT.json``, and
``page.py`` makes docs/evidence/reach.md of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import tomllib

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DATA = ROOT / "tests" / "data" / "suites"
WORK = ROOT / ".venv-suites"
TORCH = os.environ.get("TORCH", "2.13.0")
DEVICE = "A100-80GB"
#: The cuDNN that torch 2.13 comes with, which plans convolutions for the simulated device.
CUDNN = "nvidia-cudnn-cu13==9.20.0.48"
#: The ways to run, with the options of pytest for each and the build of torch.
WAYS = {
    "bare": (["-p", "no:attnmem"], "cpu"),
    "cpu": (["--attnmem-backend=cpu"], "cpu"),
    "simulated": ([f"--attnmem-backend=simulated:{DEVICE}"], "cpu"),
    "null": ([f"--attnmem-backend=null:{DEVICE}"], "null"),
}
#: Seconds for the tests of one project in one way.
PATIENCE = 3600


def projects(*, orders: bool = False) -> dict[str, dict[str, Any]]:
    """Returns the projects by name, as ``projects.toml`` has them.

    A project that is ``of`` another one has its checkout and its environments. With ``orders``, all
    are returned, with what ``make order`` runs of them.
    """
    found = tomllib.loads((HERE / "projects.toml").read_text("utf-8"))
    return {
        name: {
            **found.get(project.get("of"), {}),
            "of": name,
            **project,
            **(project.get("orders", {}) if orders else {}),
        }
        for name, project in found.items()
        if orders or not project.get("orders_only")
    }


def checkout(name: str, project: dict[str, Any]) -> Path:
    """Returns a folder with the tests of a project."""
    folder = WORK / name / "tests"
    if not folder.exists():
        mirror = os.environ.get("SUITES_MIRROR")
        owner, _, repository = project["repository"].partition("/")
        if mirror:
            clone = Path(mirror) / f"{owner}+{repository}" / "repo"
        else:
            clone = WORK / name / "clone"
            url = f"https://github.com/{project['repository']}"
            run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", url, str(clone)])
        folder.mkdir(parents=True)
        archive = ["git", f"--git-dir={clone}", "archive", project["commit"], *project["files"]]
        packed = subprocess.run(archive, check=True, capture_output=True).stdout
        subprocess.run(["tar", "x", "-C", str(folder)], check=True, input=packed)
        settings = folder / "pyproject.toml"
        if "[tool.pytest" not in (settings.read_text("utf-8") if settings.exists() else ""):
            (folder / "pytest.ini").touch()  # or pytest reads the settings of this package
    return folder


def environment(name: str, project: dict[str, Any], build: str) -> Path:
    """Returns the Python of an environment with a project, and the build of torch."""
    equals = "===" if build == "null" else "=="
    own = [str(ROOT)] if build == "null" else [f"{ROOT}[cudnn]", CUDNN]
    others = [*project["requirements"], "pytest", "--editable", *own]
    return built(WORK / name / build, [f"torch{equals}{TORCH}"], others)


def built(folder: Path, *installed: list[str]) -> Path:
    """Returns the Python of an environment; uv makes it, and installs these in turn, once."""
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        run(["uv", "venv", "--quiet", "--allow-existing", str(folder)])
        for packages in installed:
            run(["uv", "pip", "install", "--quiet", "--python", str(python), *packages])
        (folder / "installed").touch()
    return python


def run(command: list[str]) -> None:
    """Runs a command, which must end well."""
    subprocess.run(command, check=True)


def is_for_null(project: dict[str, Any]) -> bool:
    """Returns True for a project whose tests need a GPU."""
    return bool(project.get("backends") == ["null"])


def outcomes(report: Path) -> dict[str, str]:
    """Returns the outcome of each test in a report in the format of JUnit: the worst of it."""
    found: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        failed = {"failure", "error"} & tags
        outcome = "failed" if failed else "skipped" if "skipped" in tags else "passed"
        if found.get(name) != "failed":
            found[name] = outcome
    return found


def measured(report: Path) -> list[tuple[str, str]]:
    """Returns the rows: the test, as JUnit names it, and ``measured`` or why it is not enforced."""
    found = []
    for row in json.loads(report.read_text("utf-8"))["results"]:
        file, *parts = row["nodeid"].split("::")
        scope = ".".join([file.removesuffix(".py").replace("/", "."), *parts[:-1]])
        outcome = plain(row["reason"]) if row["outcome"] == "not enforced" else "measured"
        found.append((f"{scope}::{parts[-1]}", outcome))
    return found


def plain(reason: str) -> str:
    """Returns a reason without a test's line and error, and without numbers of threads and work."""
    threads = re.sub(r"^(\d+ threads were|a thread was) ", "threads were ", reason)
    work = re.sub(r"it takes \S+ (floating-point operations).*", r"it takes more \1 than", threads)
    limited = f"{work} --attnmem-values-limit allows" if work != threads else threads
    ended = re.sub(r"(it ended with \w+): .*", r"\1", limited, flags=re.DOTALL)
    return re.sub(r" at [\w.]+:\d+", "", ended)


def link_packages(project: dict[str, Any], tests: Path, python: Path) -> None:
    """Links the installed packages that a project's tests look for in the checkout."""
    for place, package in project.get("links", {}).items():
        link = tests / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(
            next((python.parent.parent / "lib").glob(f"python*/site-packages/{package}"))
        )


def run_tests(name: str, project: dict[str, Any], way: str) -> dict[str, Any]:
    """Runs the tests of a project in one way; returns what became of them."""
    options, build = WAYS[way]
    if is_for_null(project):
        build = "null"  # such a project needs Triton, which comes with the CUDA build
    of = project["of"]
    tests, python = checkout(of, project), environment(of, project, build)
    (WORK / name).mkdir(exist_ok=True)
    link_packages(project, tests, python)
    junit, rows = WORK / name / f"{way}.xml", WORK / name / f"{way}.json"
    rows.unlink(missing_ok=True)
    limits = [] if way == "bare" else ["--attnmem-default=1 TiB", f"--attnmem-json={rows}"]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}"]
    start = time.monotonic()
    with (WORK / name / f"{way}.log").open("w") as log:
        ended = subprocess.run(
            [*command, *options, *limits, *project["tests"]],
            check=False, cwd=tests, stdout=log, stderr=log, timeout=PATIENCE,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{name} did not run on {way}: see {log.name}")
    found: dict[str, Any] = {"seconds": round(time.monotonic() - start)}
    found["tests"] = outcomes(junit)
    if way != "bare":
        found["rows"] = measured(rows)
    return found


def summary(project: dict[str, Any], ways: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the numbers of a project; the tests that should pass and fail are named.

    Each test should pass that passes bare; all should if the project needs a GPU, for then none
    passes bare. Rows of tests that fail bare do not count.
    """
    needs_gpu = is_for_null(project)
    bare = ways["bare"]["tests"]
    made: dict[str, Any] = {}
    for way, found in ways.items():
        tests = found["tests"]
        counts = {kind: [*tests.values()].count(kind) for kind in ("passed", "failed", "skipped")}
        failed = (test for test, outcome in tests.items() if outcome == "failed" and way != "bare")
        red = sorted(test for test in failed if needs_gpu or bare.get(test) == "passed")
        made[way] = {"seconds": found["seconds"], **counts, "red": red}
        if "rows" in found:
            rows = [row for test, row in found["rows"] if needs_gpu or bare.get(test) != "failed"]
            made[way]["rows"] = dict(Counter(rows).most_common())
    return made


def main(names: list[str]) -> None:
    DATA.mkdir(parents=True, exist_ok=True)
    for name, project in projects().items():
        if names and name not in names:
            continue
        chosen = ["bare", *(way for way in [*WAYS][1:] if way in project.get("backends", WAYS))]
        ways = {way: run_tests(name, project, way) for way in chosen}
        text = json.dumps({"torch": TORCH, "ways": summary(project, ways)}, indent=1)
        (DATA / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
