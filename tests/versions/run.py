"""Runs the null device on each version of PyTorch, from its wheel alone: ``make null-versions``.

``python tests/versions/run.py [VERSION ...]`` runs some. Each has an environment of its own in
``.venv-versions``, made by uv: torch's CUDA wheel without NVIDIA's packages, and beside it Triton
and, where its version can plan without a GPU, cuDNN. Results go to
``tests/data/null_versions.json``, of which docs/evidence/versions.md has a table. The exit code is
1 if a program ends otherwise than the file says.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from packaging.version import Version

from pytest_attnmem.nulldevice import parts, torch_build

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / ".venv-versions"
DATA = ROOT / "tests" / "data" / "null_versions.json"
PAGE = ROOT / "docs" / "evidence" / "versions.md"
VERSIONS = (
    *("2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1"),
    *("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"),
)
#: Programs of program.py, and how the table calls them.
PARTS = {
    "starts": "starts",
    "eager": "eager",
    "values": "values",
    "modes": "under a dispatch mode",
    "triton": "Triton",
    "values_after_triton": "values after it",
    "compiled": "compiled",
    "compiled_product": "compiled product",
    "values_of_compiled": "values of it",
    "ranks": "2 ranks, NCCL",
    "cudnn": "convolution of cuDNN",
}
BEGIN, END = "<!-- versions of null -->\n", "<!-- end -->\n"
HEAD = """\
| torch | CUDA | Triton | cuDNN | {parts} |
|---|---|---|---|{lines}|
"""


def environment(version: str) -> Path:
    """Returns the Python of an environment with the wheel of a version alone."""
    folder = WORK / version
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        install = ["uv", "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run(
            ["uv", "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)],
            check=True,
        )
        subprocess.run([*install, "--no-deps", f"torch==={version}"], check=True)
        others = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy")
        own = ("setuptools", "pytest", "--editable", str(ROOT))
        subprocess.run([*install, *others, *own], check=True)
        # Triton, cuDNN if it can plan, and the headers that a checkout needs.
        torch = _torch(python)
        more = [parts.headers(torch.major), *parts.requirements(torch, "triton")]
        if torch.cudnn >= parts.PLANS:
            more += parts.requirements(torch, "cudnn")
        subprocess.run([*install, *more], check=True)
        (folder / "installed").touch()
    return python


def _torch(python: Path) -> Any:
    (folder,) = (python.parent.parent / "lib").glob("python*/site-packages/torch")
    return torch_build.describe(folder, [folder.parent / "nvidia"])


def run(version: str) -> dict[str, Any]:
    """Returns what each program saw on a version, or the last line of its error."""
    python = environment(version)
    torch = _torch(python)
    (triton,) = parts.requirements(torch, "triton")
    found: dict[str, Any] = {"cuda": torch.cuda, "cudnn_version": torch.cudnn}
    found["triton_version"] = triton.replace("~", "=").rpartition("==")[2]
    for part in PARTS:
        found[part] = _run(python, part)
        print(version, part, found[part], flush=True)
    return found


def _run(python: Path, part: str) -> Any:
    ranks = ["--ranks", "2", "--rank", "0"] if part == "ranks" else []
    command = [str(python), "-m", "pytest_attnmem.cli", "run", "--device", "A100-80GB", *ranks]
    done = subprocess.run(
        [*command, "--", str(HERE / "program.py"), part],
        capture_output=True, text=True, check=False, cwd=HERE,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # a pool of processes takes longer to start
        },
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines() if line.startswith("answer ")]
    if answers:
        return json.loads(answers[-1].partition(" ")[2])
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    told = [line for line in lines if line.startswith("attnmem: on the null device ")]
    errors = [line for line in lines if re.match(r"[\w.]*Error: ", line)]
    return (told or errors or lines)[-1].removeprefix("attnmem: on the null device ")[:300]


def table(found: dict[str, Any]) -> str:
    """Returns the table of all versions, and the lines of what does not work."""
    notes: list[str] = []
    lines = [HEAD.format(parts=" | ".join(PARTS.values()), lines="|".join(["---"] * len(PARTS)))]
    for version in sorted(found, key=Version, reverse=True):
        one = found[version]
        number = one["cudnn_version"]  # 92000 is 9.20.0
        cudnn = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
        cells = [_cell(one[part], notes) for part in PARTS]
        row = [version, one["cuda"], one["triton_version"], cudnn, *cells]
        lines.append(f"| {' | '.join(row)} |\n")
    numbered = [f"{place}. {note}\n" for place, note in enumerate(notes, 1)]
    return "".join([*lines, "\n", *numbered])


def _cell(seen: Any, notes: list[str]) -> str:
    if isinstance(seen, list):
        return "unknown" if None in seen else "yes" if all(seen) else "**wrong**"
    if seen not in notes:
        notes.append(seen)
    return f"no ({notes.index(seen) + 1})"


def page(text: str, found: dict[str, Any]) -> str:
    """Returns docs/evidence/versions.md with the table of these results."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table(found) + END + rest.partition(END)[2]


def main(versions: list[str]) -> int:
    """Runs the versions and writes data and page; returns 1 if something changed that worked."""
    known = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    found = {version: run(version) for version in versions or VERSIONS}
    DATA.write_text(json.dumps({**known, **found}, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8"), {**known, **found}), "utf-8")
    return int(any(version in known and known[version] != found[version] for version in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
