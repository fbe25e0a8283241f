"""A process that has imported torch, and runs a session of pytest for each commit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

from ..errors import AttnMemError
from ..nulldevice.launch import devices, environment
from ..report.record import Record, from_dict
from ..report.session_diff import is_measured
from ..units import excerpt

_MODULE: Final = "pytest_attnmem.plugin.warm_sessions"

Row = tuple[str, str, str]
"""The test, region and metric of a row."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The result of the tests at one commit."""

    rows: Mapping[Row, Record] = field(default_factory=dict)
    """The rows that were measured, or over a budget; of several processes' rows, the largest."""
    problem: str = ""
    """Why rows may be missing: the first error, or why a budget was not enforced."""
    rootdir: str = ""
    """The root directory of the session, relative to the repository's."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """The first error of each test that has one."""
    used: Mapping[str, str] = field(default_factory=dict)
    """What stood in for something that is not here, and for what."""
    ended: bool = True
    """False if the session was ended before it had a result, as by the time limit."""


class WarmProcess:
    """Runs sessions of pytest on the files of a worktree."""

    def __init__(
        self, server: subprocess.Popen[str], folder: Path, request: Mapping[str, object]
    ) -> None:
        self._server = server
        self._folder = folder
        self._request = request

    def sample(self, arguments: Sequence[str], *options: str) -> Sample:
        """Returns the result of a session with these arguments.

        Raises:
            AttnMemError: the process ended.
        """
        outcome = self._folder / "outcome.json"
        words = [*options, *arguments]
        request = {**self._request, "arguments": words, "outcome": str(outcome)}
        try:
            print(json.dumps(request), file=self._server.stdin, flush=True)
            line = self._server.stdout.readline() if self._server.stdout else ""
            answer = json.loads(line)
        except (OSError, ValueError):
            errors = (self._folder / "errors.txt").read_text("utf-8", "replace").strip()
            last = excerpt((errors.splitlines() or ["no message"])[-1], 200)
            raise AttnMemError(f"the process that runs the tests ended: {last}") from None
        return _sample(answer)


def _sample(answer: Mapping[str, object]) -> Sample:
    errors = answer.get("errors")
    problem = str(errors[0]) if isinstance(errors, list) and errors else ""
    found = answer.get("rows")
    if not isinstance(found, list):
        return Sample(problem=problem or "the session wrote no results", ended=False)
    rows: dict[Row, Record] = {}
    rootdir = str(answer["rootdir"])
    problems = _texts(answer.get("problems"))
    by_test = {from_root(rootdir, test): text for test, text in problems.items()}
    for one in found:
        row = from_dict(one)
        row = replace(row, nodeid=from_root(rootdir, row.nodeid))
        if row.fails or row.is_expected_failure or is_measured(row):
            key = (row.nodeid, row.region, row.metric)
            if key not in rows or (rows[key].value or 0) < (row.value or 0):
                rows[key] = row
        else:
            problem = problem or row.reason
            by_test.setdefault(row.nodeid, row.reason)
    return Sample(rows, problem, rootdir, by_test, _texts(answer.get("used")))


def _texts(value: object) -> dict[str, str]:
    return {str(k): str(text) for k, text in value.items()} if isinstance(value, dict) else {}


def from_root(rootdir: str, nodeid: str) -> str:
    """Returns the test's name with the path from the repository's root."""
    return nodeid if rootdir in ("", ".") else str(PurePosixPath(rootdir, nodeid))


@contextmanager
def warm_process(
    repository: Path,
    worktree: Path,
    folder: str,
    backend: str,
    timeout_s: float,
    *,
    modules: Sequence[str] = (),
    stand_ins: Sequence[str] | None = None,
) -> Iterator[WarmProcess]:
    """Yields the process, which is ended with all that it started.

    ``folder`` is the working directory of the sessions, relative to the worktree. ``modules`` are
    imported before them; with ``stand_ins``, even without any, names that are gone are there too.

    Raises:
        BackendUnavailable: the null device cannot be built or used here.
    """
    name, _, device = backend.partition(":")
    variables = environment(*devices(device)) if name == "null" else {}
    with tempfile.TemporaryDirectory(prefix="attnmem-bisect-") as own:
        path = Path(own).resolve()
        with (path / "errors.txt").open("wb") as errors:
            server = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(repository), backend, *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                cwd=path,
                env={**os.environ, **variables},
                start_new_session=True,  # an interrupt is for this process, which ends that one
            )
        places = {"worktree": str(worktree), "folder": folder, "backend": backend}
        more = {} if stand_ins is None else {"stand_ins": [*stand_ins]}
        try:
            yield WarmProcess(server, path, {**places, **more, "timeout_s": timeout_s})
        finally:
            _end(server)


def _end(server: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(server.pid, signal.SIGKILL)
        else:
            server.kill()
    for stream in (server.stdin, server.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()
    server.wait()
