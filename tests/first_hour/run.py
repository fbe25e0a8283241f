"""Times the first hour of a user in the environments that people have: ``make first-hour``.

``python tests/first_hour/run.py [NAME ...]`` runs some of them. Each environment has the wheel of
this checkout, and is deleted afterwards. In each, the README's test and the tutorial's blocks run
as their reader runs them. Results go to ``tests/data/first_hour.json``, of which
docs/evidence/first-hour.md is made. The exit code is 1 if a step did not show what the pages show.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.docs.page_walk import ROOT, blocks, calls, missing, patched

DATA: Final = ROOT / "tests" / "data" / "first_hour.json"
PAGE: Final = ROOT / "docs" / "evidence" / "first-hour.md"
TORCH: Final = MappingProxyType({"CPU": "torch==2.13.0", "CUDA": "torch===2.13.0"})
NOBODY: Final = 65534


class Place(NamedTuple):
    """An environment, and the layout of the project in it."""

    name: str
    python: str = "3.11"
    torch: str = "CPU"
    tool: str = "uv"
    code: str = ""
    """The folder of the code, relative to the project's root; where pytest runs, ``tests`` is."""
    tests: str = ""
    start: str = ""
    """The folder in which the user runs pytest."""
    config: str = ""
    """The text of a ``pyproject.toml`` at the root."""
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    how: str = ""
    """``notebook``, ``read-only`` or ``no compiler``."""
    left_out: str = ""
    """Why it cannot be had here, and what stands for it."""


SRC: Final = '[tool.pytest.ini_options]\npythonpath = ["src"]\ntestpaths = ["tests"]\n'
MONOREPO: Final = '[tool.pytest.ini_options]\naddopts = "-ra"\n'
NOTEBOOK: Final = ("nbclient", "nbformat", "ipykernel")
PLACES: Final = (
    Place("pip, no pyproject", tool="pip"),
    Place("uv, no pyproject"),
    Place("a src layout", code="src", tests="tests", config=SRC),
    Place(
        "a monorepo",
        code="services/model",
        tests="services/model",
        start="services/model",
        config=MONOREPO,
    ),
    Place("pytest-xdist, two workers", packages=("pytest-xdist",), options=("-n", "2")),
    Place("a notebook", packages=NOTEBOOK, how="notebook"),
    Place("read-only site-packages, another user", python="/usr/bin/python3", how="read-only"),
    Place("a prefix as conda makes it", tool="prefix"),
    Place("Python 3.10, CUDA build", "3.10", "CUDA"),
    Place("Python 3.12, CUDA build", "3.12", "CUDA"),
    Place("Python 3.13, CUDA build, no compiler", "3.13", "CUDA", how="no compiler"),
    Place("Python 3.14", "3.14", "CUDA", left_out="no such Python here; `make matrix` has it"),
    Place("Docker, python:3.12-slim", left_out="no Docker here; it is Python 3.12, no compiler"),
    Place("Windows", left_out="`tests/test_platforms.py` runs its paths"),
    Place("macOS", left_out="`tests/test_platforms.py` runs its paths"),
)

#: The user's own code, with its memory as `attnmem derive` prints it, and a copy too many.
LIMIT: Final = "8*B*H*N^2 + 4*B*H*N*d"
OWN_TEST: Final = f'''import pytest
import torch
from attn import attention

@torch.no_grad()
@pytest.mark.memory_budget("{LIMIT}")
def test_own(qkv):
    attention(*qkv(B=1, H=8, N=2048, d=64))
'''
LINE: Final = "    weights = torch.softmax(scores, dim=-1)\n"
COPY: Final = "    kept = scores.clone()\n"


class Reader:
    """A user in one environment: writes files, and runs commands."""

    def __init__(self, place: Place, python: Path, folder: Path) -> None:
        self.place, self._python, self.root = place, python, folder
        self.start = folder / place.start
        for part in (place.code, place.tests, place.start):
            (folder / part).mkdir(parents=True, exist_ok=True)
        if place.config:
            (folder / "pyproject.toml").write_text(place.config, "utf-8")

    def write(self, name: str, text: str, language: str = "") -> None:
        """Writes a file of a page into its folder, or changes it by a diff."""
        place = self.place
        if name == "pytest.ini" and place.config:  # it would hide the settings that are there
            name, text = (
                "pyproject.toml",
                place.config
                + re.sub(r"^(\w+) = (.+)$", r'\1 = "\2"', text.partition("\n")[2], flags=re.M),
            )
        part = place.tests if name.startswith("test_") else place.code
        target = self.root / ("" if name.startswith("py") else part) / name
        target.write_text(patched(target.read_text("utf-8"), text) if language == "diff" else text)

    def run(self, command: str) -> list[str]:
        """Returns the lines that a command prints."""
        program, *words = shlex.split(command)
        if program == "pytest":
            words = [self._found(word) for word in words]
            words += self.place.options
        module = {"pytest": "pytest", "attnmem": "pytest_attnmem.cli"}[program]
        command_line = [str(self._python), "-m", module, *words]
        if self.place.how == "notebook":
            cell = json.dumps("!" + shlex.join(command_line))
            command_line = [str(self._python), "-c", _IN_A_NOTEBOOK.format(cell=cell)]
        binary = str(self._python.parent)
        path = binary if self.place.how == "no compiler" else f"{binary}:{os.environ['PATH']}"
        # A notebook's commands print to a terminal, where a table leaves columns out to fit.
        variables = {**os.environ, "PATH": path, "COLUMNS": "120", "PYTHONPATH": "", "HOME": ""}
        variables["HOME"] = str(self.root / "home")
        (self.root / "home").mkdir(exist_ok=True)
        as_user: dict[str, Any] = {}
        if self.place.how == "read-only":
            subprocess.run(["chown", "-R", str(NOBODY), str(self.root)], check=True)
            as_user = {"user": NOBODY, "group": NOBODY}
        done = subprocess.run(
            command_line,
            cwd=self.start,
            env=variables,
            text=True,
            encoding="utf-8",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **as_user,
        )
        plain = re.sub(r"\x1b\[[\d;]*[mK]", "", done.stdout.replace("\r", "\n"))
        folders = {f"{folder}/" for folder in (self.place.code, self.place.tests) if folder}
        for folder in folders:  # paths are from the root
            plain = plain.replace(folder, "")
        return [line.rstrip() for line in plain.splitlines()]

    def _found(self, word: str) -> str:
        """Returns the path of a test file from the folder in which pytest runs."""
        if not word.startswith("test_"):
            return word
        return os.path.relpath(self.root / self.place.tests / word, self.start)


_IN_A_NOTEBOOK: Final = """
import nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell({cell})])
nbclient.NotebookClient(book, timeout=600).execute()
print("".join(out.get("text", "") for out in book.cells[0].outputs))
"""


def first_test(reader: Reader) -> str:
    """Returns what the README's first test lacks: it is red, and names the tensors."""
    code, test, *_ = [one.text for one in blocks(ROOT / "README.md") if one.language == "python"]
    reader.write("attn.py", code)
    reader.write("test_attn.py", test)
    printed = reader.run("pytest test_attn.py")
    return lacks(printed, "peak 260.0 MiB exceeds budget 8.1 MiB (32.2x) on cpu", "softmax")


def own_code(reader: Reader) -> str:
    """Returns what a test of own code lacks: green, then red with a copy of its largest tensor."""
    reader.write("test_own.py", OWN_TEST)
    green = reader.run("pytest test_own.py")
    if lost := lacks(green, "attnmem: 1 budget, 1 within, 0 over, 0 not enforced"):
        return lost
    code = blocks(ROOT / "README.md")[0].text
    assert LINE in code
    reader.write("attn.py", code.replace(LINE, COPY + LINE))
    red = reader.run("pytest test_own.py")
    return lacks(red, "peak 388.0 MiB exceeds budget 260.0 MiB (1.5x) on cpu", "clone")


def doctor(reader: Reader) -> str:
    """Returns what `attnmem doctor` lacks: an answer first, and three commands last."""
    printed = reader.run("attnmem doctor")
    return lacks(printed, "measures here with", "next", "attnmem init", "--attnmem-update all")


def tutorial(reader: Reader) -> str:
    """Returns the first line of the tutorial that was not printed; its folder is empty."""
    for path in [*reader.root.rglob("*attn.py"), *reader.root.rglob("test_own.py")]:
        path.unlink()
    for block in blocks(ROOT / "docs" / "tutorial.md"):
        if block.title:
            reader.write(block.title, block.text, block.language)
        elif block.language == "console":
            for command, shown in calls(block.text):
                if command.split()[0] not in ("pytest", "attnmem"):
                    continue
                printed = reader.run(command)
                # A path of other folders, and the rules of a table as wide as it, are others there.
                wanted = [line for line in shown if not re.search(r"::|___|^---", line)]
                if lost := missing(_narrow(wanted), _narrow(printed)):
                    return f"{command}: not printed: {lost[0]}"
    return ""


def null(reader: Reader) -> str:
    """Returns what the README's first test lacks on the null device; torch must be a CUDA build."""
    if reader.place.torch != "CUDA":
        return ""
    printed = reader.run("pytest test_attn.py --attnmem-backend null:H100")
    return lacks(printed, "exceeds budget 8.1 MiB (32.2x) on null:H100", "softmax")


def _narrow(lines: list[str]) -> list[str]:
    """Returns the lines with single spaces: columns are as wide as the longest path."""
    return [" ".join(line.split()) for line in lines]


def lacks(printed: list[str], *texts: str) -> str:
    """Returns the first text that no line has after the one before, and what was printed."""
    rest = iter(printed)
    for text in texts:
        if not any(text in line for line in rest):
            return f"not printed: {text}; last: {' / '.join(printed[-3:])}"
    return ""


STEPS: Final = (first_test, null, own_code, doctor, tutorial)


def install(place: Place, folder: Path, wheel: Path) -> Path:
    """Makes the environment, and returns its Python."""
    python, requirements = folder / "bin" / "python", [TORCH[place.torch], str(wheel), "numpy"]
    requirements += place.packages
    uv = [os.environ.get("UV", "uv")]
    if place.tool == "prefix":  # no pyvenv.cfg: Python itself stands in the folder
        base = subprocess.check_output([*uv, "python", "find", place.python], text=True).strip()
        ask = [base, "-c", "import sys; print(sys.base_prefix)"]
        whole = subprocess.check_output(ask, text=True).strip()
        shutil.copytree(whole, folder, symlinks=True, ignore=shutil.ignore_patterns("test"))
        (folder / "conda-meta").mkdir()
        python = folder / "bin" / f"python{place.python}"
    elif place.tool == "pip":
        found = subprocess.check_output([*uv, "python", "find", place.python], text=True).strip()
        subprocess.run([found, "-m", "venv", str(folder)], check=True)
    else:
        subprocess.run([*uv, "venv", "--quiet", "--python", place.python, str(folder)], check=True)
    if place.tool == "uv":
        command = [*uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        command = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*command, *requirements], check=True)
    if place.how == "read-only":
        subprocess.run(["chmod", "-R", "a-w", str(folder)], check=True)
    return python


def measure(place: Place, wheel: Path, work: Path) -> dict[str, Any]:
    """Returns the seconds of each step, the bytes of the environment, and what was wrong."""
    folder, project = work / "environment", work / "project"
    began = time.monotonic()
    python = install(place, folder, wheel)
    found: dict[str, Any] = {"install": time.monotonic() - began}
    ask = [str(python), "-c", "import platform; print(platform.python_version())"]
    found["python"] = subprocess.check_output(ask, text=True).strip()
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    found["bytes"] = sum(path.stat().st_size for path in files)
    reader = Reader(place, python, project)
    for step in STEPS:
        began = time.monotonic()
        if wrong := step(reader):
            found["wrong"] = f"{step.__name__}: {wrong}"
            break
        if step is not null or place.torch == "CUDA":
            found[step.__name__] = time.monotonic() - began
    shutil.rmtree(folder)
    shutil.rmtree(project)
    return {k: round(v, 1) if isinstance(v, float) else v for k, v in found.items()}


HEAD: Final = """\
# The first hour

From an empty folder to a first red test on one's own code, in the environments that people have.
`make first-hour` makes each of them, installs the wheel of this checkout, and runs the README's
first test (with a CUDA build on `null` too), a test of one's own (green with the closed form that
`attnmem derive` prints, red with one copy of the largest tensor), `attnmem doctor`, and all blocks
of the tutorial. What they print is compared with the pages. Seconds are of the clock, on a machine
of {cores} cores; packages came from caches of pip and uv, so a network adds its time.

| environment | Python | torch | install, s | MiB | README | null | own test | doctor | tutorial |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|
"""


def page(found: dict[str, Any]) -> str:
    """Returns docs/evidence/first-hour.md of these results."""
    lines = []
    for place in PLACES:
        row = found.get(place.name, {})
        if not row:
            why = place.left_out or "not run yet"
            lines.append(f"| {place.name} | {why} | | | | | | | | |")
            continue
        names = [step.__name__ for step in STEPS]
        known = [f"{row[name]:.1f}" if name in row else "" for name in names]
        wrong = row.get("wrong", "").partition(":")[0]
        seconds = [
            "**no**" if name == wrong else cell for name, cell in zip(names, known, strict=True)
        ]
        size = f"{row['bytes'] / 1024**2:,.0f}"
        cells = [place.name, row["python"], f"2.13.0 {place.torch}", f"{row['install']:.1f}", size]
        lines.append(f"| {' | '.join([*cells, *seconds])} |")
    wrong = [f"- {name}: {row['wrong']}" for name, row in found.items() if "wrong" in row]
    more = ["", "What was not as the pages show:", "", *wrong] if wrong else []
    head = HEAD.format(cores=found.get("machine", {}).get("cores", "?"))
    return head + "\n".join([*lines, *more]) + "\n"


def main(names: list[str]) -> int:
    """Runs the environments, and writes data and page; returns 1 if one was wrong."""
    uv = os.environ.get("UV", "uv")
    if "PIP_FIND_LINKS" in os.environ:  # as in the Makefile: uv has a name of its own for it
        os.environ.setdefault("UV_FIND_LINKS", os.environ["PIP_FIND_LINKS"])
    if shutil.which("pyenv"):  # as in noxfile.py: only the selected versions work
        versions = subprocess.check_output(["pyenv", "versions", "--bare"], text=True).split()
        os.environ.setdefault("PYENV_VERSION", ":".join(versions))
    found = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    found["machine"] = {"cores": os.cpu_count(), "system": platform.system()}
    with TemporaryDirectory(prefix="first-hour-") as name:  # no folder above it is a project
        work = Path(name).resolve()
        work.chmod(0o755)
        build = [uv, "build", "--quiet", "--wheel", "--out-dir", str(work), str(ROOT)]
        subprocess.run(build, check=True, env={**os.environ, "ATTNMEM_RUNTIME": "1"})
        (wheel,) = work.glob("*.whl")
        for place in PLACES:
            rootless = place.how == "read-only" and os.geteuid() != 0  # cannot be another user
            if place.left_out or rootless or (names and place.name not in names):
                continue
            found[place.name] = measure(place, wheel, work)
            print(place.name, found[place.name], flush=True)
            DATA.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
            PAGE.write_text(page(found), "utf-8")
    return int(any("wrong" in row for row in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
