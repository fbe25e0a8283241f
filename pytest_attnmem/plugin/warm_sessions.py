"""Runs sessions of pytest, each in a fresh copy of this process, which has torch imported already.

``python -m pytest_attnmem.plugin.warm_sessions REPOSITORY BACKEND [MODULE …]`` reads one request
per line from standard input, and answers with one line when its session has ended. A copy is a
fork, so that each session imports the repository's modules anew and torch not at all. Without
``os.fork``, a session is a new process, which imports torch again: the same results, a few seconds
later each.

The fork is safe because this process runs one thread: it imports, but computes nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from ..errors import AttnMemError
from ..measurement.garbage import freeze_present
from .session_outcome import SessionOutcome
from .substitutes import Substitutes


def lead_to(worktree: Path, repository: Path) -> None:
    """Has imports from ``repository`` find the same files in ``worktree``.

    This covers the import path, ``PYTHONPATH`` and the finders of editable installs (``MAPPING`` of
    setuptools' ``__editable___*_finder``). As with ``python -m pytest``, the worktree itself comes
    first, then its folder ``src`` if it has one.
    """

    def moved(text: str) -> str:
        return moved_path(text, repository, worktree)

    first = [str(worktree)] + [str(worktree / "src")] * (worktree / "src").is_dir()
    rest = [moved(entry) for entry in sys.path if entry]
    sys.path[:] = [*first, *(entry for entry in rest if entry not in first)]
    listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(moved(entry) for entry in listed if entry)
    for finder in sys.meta_path:
        module = sys.modules.get(getattr(finder, "__module__", ""))
        mapping = getattr(module, "MAPPING", None)
        if isinstance(mapping, dict):
            mapping.update({name: moved(str(path)) for name, path in mapping.items()})
    sys.path_importer_cache.clear()


def moved_path(text: str, repository: Path, worktree: Path) -> str:
    """Returns the path with ``worktree`` in place of ``repository``, unless it is an environment's.

    A virtual environment in the repository stays where it is.
    """
    path = Path(text)
    inside = path.is_relative_to(repository) and not path.is_relative_to(worktree)
    if not inside or path.is_relative_to(sys.prefix) or "site-packages" in path.parts:
        return text
    return str(worktree / path.relative_to(repository))


def imported_elsewhere(repository: Path, worktree: Path) -> str:
    """Returns the first module that was imported from the repository instead; empty if none was.

    This package may be the repository's own: the one that measures is not the one measured.
    """
    own = __name__.partition(".")[0]
    for name, module in sorted(sys.modules.items()):
        file = str(getattr(module, "__file__", None) or "")
        measuring = name == "__main__" or name.partition(".")[0] == own
        if (
            file.startswith(str(repository))
            and not measuring
            and moved_path(file, repository, worktree) != file
        ):
            return f"module {name} was imported from {file}"
    return ""


_POLL_S: Final = 0.005
#: What a session imports late.
_USED: Final = (
    *("torch", "pytest", "pdb", "unittest.mock", "pytest_attnmem.plugin.simulated_session"),
    *("pytest_attnmem.plugin.planner", "pytest_attnmem.plugin.call_phase"),
    *("pytest_attnmem.plugin.growth_check", "pytest_attnmem.plugin.reporter"),
    *("pytest_attnmem.plugin.traced_runs", "pytest_attnmem.report.json"),
    "pytest_attnmem.report.terminal",
)


def serve(
    repository: Path,
    backend: str,
    modules: Sequence[str],
    requests: IO[str],
    answers: IO[str],
) -> None:
    """Runs a session for each request, and writes its answer; imports the modules first.

    A request is ``{"worktree", "folder", "backend", "arguments", "outcome", "timeout_s"}``, where
    ``folder`` is the working directory, relative to the worktree. With ``"stand_ins"``, packages
    that have stand-ins, names that are gone lead to what replaced them. The answer is the
    session's outcome, or ``{"errors"}`` for a session that did not end.
    """
    if hasattr(os, "fork"):
        _warm_up(repository, backend, modules)
    for line in requests:
        request = json.loads(line)
        outcome = Path(request["outcome"])
        outcome.unlink(missing_ok=True)
        ended = _run(repository, request)
        try:
            answer = json.loads(outcome.read_text("utf-8"))
        except (OSError, ValueError):
            answer = {"errors": [ended or "the session ended without a result"]}
        print(json.dumps(answer), file=answers, flush=True)


def _warm_up(repository: Path, backend: str, modules: Sequence[str]) -> None:
    """Imports what every session needs; nothing of the repository, which commits change."""
    for name in _USED:
        import_module(name)
    with suppress(AttnMemError):  # each session says so
        if backend.partition(":")[0] == "simulated":
            from ..backends.primed_backend import open_primed

            open_primed(backend)
    for plugin in entry_points(group="pytest11"):
        if _is_apart(plugin.module, repository):
            with suppress(Exception):  # pytest reports it itself
                plugin.load()
    if "_hypothesis_pytestplugin" in sys.modules and _is_apart("hypothesis", repository):
        import_module("hypothesis")  # which its plugin imports at the end of each session
    for name in modules:
        if _is_apart(name, repository):
            with suppress(Exception):  # each session says so
                import_module(name)
    freeze_present()  # no session visits these objects, nor copies their pages


def _is_apart(module: str, repository: Path) -> bool:
    """Returns True if a module is installed, and its files are no files of the repository."""
    spec = None
    with suppress(ImportError, ValueError):
        spec = find_spec(module.partition(".")[0])
    return bool(spec and spec.origin and not Path(spec.origin).is_relative_to(repository))


def _run(repository: Path, request: dict[str, Any]) -> str:
    """Runs a session in a copy of this process; returns why it has no result, if it has none."""
    limit = float(request["timeout_s"])
    late = f"the session did not end in {limit:g} s"
    if not hasattr(os, "fork"):
        command = [sys.executable, "-m", __spec__.name, str(repository), json.dumps(request)]
        try:
            subprocess.run(command, stdout=subprocess.DEVNULL, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return late
        return ""
    copy = os.fork()
    if not copy:
        code = 1
        try:
            code = _session(repository, request)
        finally:
            os._exit(code)
    until = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(copy, os.WNOHANG)
        if ended:
            signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            return f"the session was ended by signal {signal}" if signal else ""
        if time.monotonic() > until:
            os.kill(copy, 9)
            os.waitpid(copy, 0)
            return late
        time.sleep(_POLL_S)


def _session(repository: Path, request: dict[str, Any]) -> int:
    """Runs one session of pytest in this process, and writes its outcome."""
    worktree, folder = Path(request["worktree"]), Path(request["folder"])
    os.setsid() if hasattr(os, "setsid") else None
    with open(os.devnull, "w+b") as nothing:
        for stream in (0, 1, 2):
            os.dup2(nothing.fileno(), stream)
    sys.dont_write_bytecode = True  # two commits may write a file in the same second
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    lead_to(worktree, repository)
    os.chdir(worktree / folder)
    import pytest

    outcome = SessionOutcome(worktree)
    if "stand_ins" in request:
        substitutes = Substitutes(request["stand_ins"])
        substitutes.install()
        outcome.used = substitutes.used
    words = [f"--attnmem-backend={request['backend']}", *request["arguments"]]
    words = [*_QUIET, *_without_others_settings(worktree, words), *words]
    code = int(pytest.main(words, plugins=[outcome]))
    if module := imported_elsewhere(repository, worktree):
        outcome.errors.insert(0, f"{module}, not from the commit")
        code = int(pytest.ExitCode.INTERNAL_ERROR)
    outcome.write(Path(request["outcome"]), code)
    return code


def _without_others_settings(worktree: Path, words: list[str]) -> list[str]:
    """Returns the options that ignore an ini file above the worktree, such as one in its TMPDIR."""
    from .option_values import determined

    root, *_ = determined(args=words, invocation_dir=Path.cwd())
    if root.resolve().is_relative_to(worktree.resolve()):
        return []
    return ["-c", os.devnull, f"--rootdir={worktree}"]


_QUIET: Final = ("-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported")


def main() -> None:
    """Runs the server, or with a request as the second argument its session."""
    repository, second = Path(sys.argv[1]), sys.argv[2]
    if second.startswith("{"):
        sys.exit(_session(repository, json.loads(second)))
    modules = sys.argv[3:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # an import may print, and its text is not an answer
    serve(repository, second, modules, sys.stdin, answers)


if __name__ == "__main__":
    main()
