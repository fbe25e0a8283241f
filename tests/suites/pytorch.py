"""Runs PyTorch's own tests of memory on the null device: ``make pytorch-suite``.

``python tests/suites/pytorch.py [FILE ...]`` runs some files of ``pytorch.toml``. The tests come
from Debian's source package ``pytorch``, by the mirror of apt; ``SUITES_MIRROR`` names a folder
with a clone ``pytorch+pytorch/repo`` in its place, and ``PYTORCH_TAG`` the tag. Results go to
``tests/data/suites/pytorch.json``; ``pytorch_page.py`` makes a page of the reference of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import tomllib
from run import DATA, HERE, ROOT, WORK, built, outcomes, plain, run

TORCH = os.environ.get("TORCH", "2.15.0")
FOLDER = WORK / "pytorch"
RESULTS = DATA / "pytorch.json"
#: What is taken of PyTorch's source.
PARTS = ("test", "tools")
REQUIREMENTS = ("expecttest", "hypothesis", "psutil", "numpy", "pytest", "pytest-timeout")
#: Seconds for a test, of which some compute values on the CPU, and for one with ranks.
PATIENCE = 1200, 1500


def settings() -> dict[str, Any]:
    """Returns the source and the runs of ``pytorch.toml``."""
    found = tomllib.loads((HERE / "pytorch.toml").read_text("utf-8"))
    for one in found["run"]:
        one.setdefault("parts", [""])
    return found


def tests_of_pytorch(source: dict[str, str]) -> Path:
    """Returns PyTorch's folder ``test``, which is brought here if it is not there yet."""
    release = os.environ.get("PYTORCH_TAG", f"v{source['release']}").removeprefix("v")
    folder = FOLDER / release
    if not (folder / "test").exists():
        folder.mkdir(parents=True, exist_ok=True)
        mirror, archive = os.environ.get("SUITES_MIRROR"), folder / "source.tar"
        if mirror:
            clone = Path(mirror) / "pytorch+pytorch" / "repo"
            git = ["git", f"--git-dir={clone}", "archive", f"--output={archive}", f"v{release}"]
            run([*git, *PARTS])
            prefix = ""
        else:
            indexes = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
            found = subprocess.run(indexes, check=True, capture_output=True, text=True).stdout
            debian = next(uri for uri in found.split() if uri.rstrip("/").endswith("/debian"))
            url = f"{debian.rstrip('/')}/{source['archive']}"
            helper = ["/usr/lib/apt/apt-helper", "download-file", url, str(archive)]
            run([*helper, f"SHA256:{source['sha256']}"])
            prefix = f"pytorch-v{release}/"
        tar = ["tar", "x", "-f", str(archive), "-C", str(folder)]
        strip = f"--strip-components={prefix.count('/')}"
        run([*tar, strip, *(prefix + part for part in PARTS)])
        archive.unlink()
        (folder / "test" / "pytest.ini").touch()  # or pytest reads the settings of this package
    return folder / "test"


def environment() -> Path:
    """Returns the Python of an environment with the CUDA build of torch and what its tests need."""
    packages = [f"torch==={TORCH}", *REQUIREMENTS, "--editable", str(ROOT)]
    return built(FOLDER / f"torch-{TORCH}", packages)


def run_part(one: dict[str, Any], part: int, tests: Path, python: Path) -> None:
    """Runs a part of a file; its report says what became of each test."""
    report = reports(one)[part]
    report.unlink(missing_ok=True)
    patience = PATIENCE[one["device"].startswith("2x")]
    command = [str(python), "-m", "pytest", "-v", "--noconftest", "-p", "no:cacheprovider"]
    options = [f"--attnmem-backend=null:{one['device']}", f"--timeout={patience}", "--tb=short"]
    with report.with_suffix(".log").open("w") as log:
        subprocess.run(
            [*command, *options, one["file"], f"--junitxml={report}", "-k", one["parts"][part]],
            check=False, cwd=tests, stdout=log, stderr=log,
            env={**os.environ, "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(patience)},
        )  # fmt: skip


def reports(one: dict[str, Any]) -> list[Path]:
    """Returns where the reports of the parts of a file are."""
    name = one["file"].replace("/", ".")
    return [FOLDER / f"{name}.{part}.xml" for part in range(len(one["parts"]))]


def summary(one: dict[str, Any]) -> dict[str, Any]:
    """Returns how many tests of a file passed, why others were skipped, and which failed."""
    ends, skipped = Counter[str](), Counter[str]()
    failed: list[str] = []
    for report in reports(one):
        found = outcomes(report)
        ends.update(found.values())
        failed += [name(test) for test, outcome in found.items() if outcome == "failed"]
        skipped.update(reasons(report))
    return {
        "device": one["device"],
        "passed": ends["passed"],
        "skipped": dict(skipped.most_common()),
        "failed": sorted(failed),
    }


def name(test: str) -> str:
    """Returns ``Class::test`` of a test in a report."""
    scope, _, function = test.partition("::")
    return f"{scope.rpartition('.')[2]}::{function}"


def reasons(report: Path) -> list[str]:
    """Returns why each test was skipped that was, in a few words."""
    found = []
    for case in ET.parse(report).getroot().iter("testcase"):
        for skip in case.iter("skipped"):
            reason = plain(skip.get("message", "").removeprefix("NotKnown: "))
            if skip.get("type") == "pytest.xfail":
                reason = "it is expected to fail"
            found.append(re.sub(r"^a value was read.*", "a value that nobody knows", reason))
    return found


def main(files: list[str]) -> None:
    known = settings()
    tests, python = tests_of_pytorch(known["source"]), environment()
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"files": {}}
    results |= {"torch": TORCH, "tests": tests.parent.name}
    for one in known["run"]:
        if not files or one["file"] in files:
            for part in range(len(one["parts"])):
                run_part(one, part, tests, python)
            results["files"][one["file"]] = summary(one)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
