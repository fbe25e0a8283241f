"""A repository of every kind of commit that a history meets, and the steps that are in it.

``python -m tests.history.synthetic BACKEND COUNT ALONE`` measures it with COUNT commits, and ALONE
of them again, each in a new process that nothing prepared, and says what it took. On the backend
``none`` the sessions are left out: git, the files and the list of results alone.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli import main
from pytest_attnmem.commits.warm_process import Sample
from pytest_attnmem.history import measurer
from pytest_attnmem.report.record import Record

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.commits.repositories import Step, commits, repository

#: Two rows; the second one also uses a table that the first call fills, and another module.
MODEL = """
import os, torch
from .{part} import EXTRA

_TABLE = {{}}

def zeros(count):
    return torch.zeros(count, device=os.environ.get("SYNTHETIC_DEVICE", "cpu"))

def small():
    return [zeros({small})]

def large():
    if "table" not in _TABLE:
        _TABLE["table"] = zeros(4096)
    return [zeros({large}), zeros(EXTRA)]
"""
TESTS = """
from net.model import large, small

def test_small():
    small()

def test_large():
    large()
"""


def model(small: int, large: int, part: str = "part", note: str = "") -> str:
    return MODEL.format(small=small, large=large, part=part) + f"# {note}\n"


class Expected(NamedTuple):
    """A step: the number of its commit, its row, and the bytes before and after."""

    number: int
    row: str
    before: int
    after: int


def steps() -> tuple[list[Step], list[Expected]]:
    """Returns the commits, each kind once, and the steps among them."""
    made: list[Step] = []
    expected: list[Expected] = []

    def add(files: dict[str, str | None], *parents: int, title: str = "") -> int:
        made.append(Step(files, parents, title=title))
        return len(made) - 1

    def grew(number: int, row: str, before: int, after: int) -> None:
        expected.append(Expected(number, f"tests/test_net.py::test_{row}", before, after))

    path, part = "net/model.py", "net/part.py"
    table = 4 * 4096
    add({"setup.cfg": "\n"}, title="no package yet")
    add({path: model(1024, 2048), part: "EXTRA = 512\n", "net/__init__.py": ""})
    small, large = 4096, 4 * 2048 + 4 * 512 + table
    grew_to = add({path: model(2048, 2048)}, title="more")
    grew(grew_to, "small", small, small * 2)
    number = add({path: model(1024, 2048)}, title="undone")
    grew(number, "small", small * 2, small)
    add({path: model(1024, 2048) + "def broken(:\n"}, title="broken")
    number = add({path: model(1024, 4096)}, title="after the broken one")
    grew(number, "large", large, large + 4 * 2048)
    large += 4 * 2048
    number = add({part: "EXTRA = 1024\n"}, title="what it depends on")
    grew(number, "large", large, large + 4 * 512)
    large += 4 * 512
    number = add({path: model(2048, 8192)}, title="two in one commit")
    grew(number, "large", large, large + 4 * 4096)
    grew(number, "small", 4096, 8192)
    small, large = 8192, large + 4 * 4096
    add({path: model(2048, 8192, "extra"), part: None, "net/extra.py": "EXTRA = 1024\n"},
        title="renamed")  # fmt: skip
    head = add({"huge.txt": "x" * 5_000_000}, title="a huge file")
    head = add({"lib": f"submodule {'1' * 40}"}, title="a submodule")
    # A branch without a step, a branch with one, and the merges of both.
    plain = add({"net/other.py": "x = 1\n"}, head)
    main_ = add({path: model(2048, 8192, "extra", "edited")}, head)
    head = add({"net/other.py": "x = 1\n"}, main_, plain, title="merge of nothing")
    branch = add({path: model(4096, 8192, "extra", "edited")}, head, title="on a branch")
    grew(branch, "small", small, small + 8192)
    ours = add({"net/extra.py": "EXTRA = 2048\n"}, head, title="meanwhile")
    grew(ours, "large", large, large + 4096)
    head = add({path: model(4096, 8192, "extra", "edited")}, ours, branch, title="merge of both")
    small, large = small + 8192, large + 4096
    side = add({"net/other.py": "x = 2\n"}, head)
    main_ = add({"net/more.py": "x = 3\n"}, head)
    head = add({"net/other.py": "x = 2\n", path: model(8192, 8192, "extra", "edited")},
               main_, side, title="a merge that changes more")  # fmt: skip
    grew(head, "small", small, small + 16384)
    small += 16384
    moved = {f"src/net/{name}": text for name, text in {
        "model.py": model(8192, 8192, "extra"), "extra.py": "EXTRA = 2048\n", "__init__.py": "",
    }.items()}  # fmt: skip
    gone = dict.fromkeys((path, "net/extra.py", "net/__init__.py", "net/other.py", "net/more.py"))
    add({**gone, **moved}, title="the package moves")
    number = add({"src/net/model.py": model(1024, 8192, "extra")}, title="less")
    grew(number, "small", small, 4096)
    add({"tests/test_net.py": TESTS}, title="tests at last")
    return made, expected


def synthetic(folder: Path, count: int = 0) -> tuple[Path, list[Expected]]:
    """Returns the repository, with edits that change no bytes up to ``count`` commits."""
    made, expected = steps()
    text = model(1024, 8192, "extra")
    made += [
        Step({"src/net/model.py": text + f"# {number}\n"}) for number in range(len(made), count)
    ]
    return repository(folder, made), expected


def alone(folder: Path, commit: str, backend: str) -> dict[str, int]:
    """Returns the bytes of a commit's files, in a new process of pytest that nothing prepared."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        archive = subprocess.run(
            ["git", "-C", str(folder), "archive", commit], capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "x", "-C", made], input=archive, check=True)
        place.joinpath("tests").mkdir(exist_ok=True)
        place.joinpath("tests/test_net.py").write_text(TESTS, "utf-8")
        words = [f"--attnmem-json={made}/rows.json", f"--attnmem-backend={backend}"]
        words += ["--attnmem-default=1 TiB", "-p", "no:cacheprovider", "tests/test_net.py"]
        words += ["-c", os.devnull, f"--rootdir={made}"]
        paths = [made, f"{made}/src", str(Path(__file__).parents[2])]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *words],
            cwd=made,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
        )
        rows = json.loads(place.joinpath("rows.json").read_text("utf-8"))["results"]
        return {row["nodeid"]: row["peak_bytes"] for row in rows if row["peak_bytes"]}


def found_steps(data: dict[str, object], known: list[str]) -> Iterator[Expected]:
    """Yields the steps of a history's JSON, commits as numbers."""
    place = {sha: number for number, sha in enumerate(known)}
    for step in data["steps"]:  # type: ignore[attr-defined]
        yield Expected(place[step["sha"]], step["row"], step["before"], step["after"])


class NoSession:
    """Answers as a process does whose sessions take no time."""

    def sample(self, words, *options) -> Sample:
        row = Record("t", outcome=Outcome.WITHIN, peak_bytes=4096, backend="cpu", device="cpu")
        return Sample({("t", "", "peak"): row})


def run(backend: str, count: int, again: int) -> None:
    """Measures the repository, and each commit alone, and prints what it took."""
    os.environ["SYNTHETIC_DEVICE"] = "cpu" if backend == "cpu" else "cuda"
    if backend == "none":
        measurer.warm_process = lambda *places, **more: nullcontext(NoSession())  # type: ignore[attr-defined, assignment, misc]
    with tempfile.TemporaryDirectory() as made:
        os.environ["XDG_CACHE_HOME"] = made
        folder, expected = synthetic(Path(made) / "r", count)
        os.chdir(folder)
        path = Path(made) / "history.json"
        words = ["--backend", backend if backend != "none" else "cpu", "--json", str(path)]
        assert main(["history", *words, "--", "tests/test_net.py"]) == 0
        data = json.loads(path.read_text("utf-8"))
        known = commits(folder)
        found = sorted(found_steps(data, known))
        if backend != "none":
            assert found == sorted(expected), (found, expected)
        used = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{len(known)} commits on {backend}: {len(found)} steps;"
            f" {used.ru_maxrss >> 10} MiB here and {children.ru_maxrss >> 10} MiB in the largest"
            f" child, {len(os.listdir('/proc/self/fd'))} open files, {used.ru_utime:.0f} s of"
            f" processor time here and {children.ru_utime + children.ru_stime:.0f} s in children"
        )
        for point in data["points"][:again]:
            values = point["measured"]["values"]
            assert alone(folder, point["sha"], backend) == values, point
        print(f"the first {again} commits, each alone, give the same bytes")


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
