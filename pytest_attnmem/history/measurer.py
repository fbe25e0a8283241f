"""Measures the commits of a history, those with the same files once."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from ..baselines.entries import Entry, row_name
from ..commits.commit_files import CommitFiles, FixedTests, commit_files
from ..commits.repository import Repository
from ..commits.terms import LISTING, PLAIN, entries, terms
from ..commits.warm_process import Row, Sample, WarmProcess, warm_process
from ..errors import AttnMemError
from ..report.held_changes import HeldChange, held_changes, lines, term
from ..report.record import Record
from .kept_results import KeptResults
from .program import Program
from .project_history import Cause, Measured, Step, TensorChange

_TENSORS: Final = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """How commits are measured."""

    repository: Repository
    tests: FixedTests
    words: tuple[str, ...]
    """The arguments of pytest."""
    program: Program | None
    backend: str
    timeout_s: float
    paths: tuple[str, ...] = ()
    """The files and folders that are there; all if empty."""
    modules: tuple[str, ...] = ()
    """What is imported before the commits."""
    stand_ins: tuple[str, ...] = ()


class Worker:
    """Files, and a process that runs sessions on them; a process that ends is replaced once."""

    def __init__(self, setting: Setting, files: CommitFiles, stack: ExitStack) -> None:
        self._setting, self._files, self._stack = setting, files, stack
        self.is_closed = False
        self._process = self._started()

    @property
    def root(self) -> Path:
        """Returns the folder of the files."""
        return self._files.path

    def _started(self) -> WarmProcess:
        setting, repository = self._setting, self._setting.repository
        folder = repository.folder if setting.program is None else "."
        process = warm_process(
            *(repository.root, self._files.path, folder, setting.backend, setting.timeout_s),
            modules=setting.modules,
            stand_ins=setting.stand_ins,
        )
        return self._stack.enter_context(process)

    def sample_at(self, commit: str, *options: str, rows: Sequence[str] = ()) -> Sample:
        """Returns the result of the tests at a commit; of a program, those of some rows."""
        try:
            self._files.check_out(commit)
        except AttnMemError as error:
            return Sample(problem=str(error), ended=False)
        words = self._setting.words
        if self._setting.program is not None:
            words = (*self._setting.program.words(rows), *words)
        try:
            return self._process.sample(words, *options)
        except AttnMemError as error:
            problem = str(error)  # a commit may end the process that runs it
        if not self.is_closed:
            self._process = self._started()
        return Sample(problem=problem, ended=False)


@contextmanager
def worker(setting: Setting) -> Iterator[Worker]:
    """Yields a new worker; its process and files are gone at the end."""
    with ExitStack() as stack:
        files = stack.enter_context(commit_files(setting.repository, setting.tests, setting.paths))
        made = Worker(setting, files, stack)
        try:
            yield made
        finally:
            made.is_closed = True


class Measurer:
    """Measures commits by their files, and keeps the results."""

    def __init__(self, setting: Setting, kept: KeptResults, show: Callable[[str], None]) -> None:
        self._setting, self._kept, self._show = setting, kept, show
        self._lock = Lock()

    def measure(self, trees: dict[str, str], jobs: int) -> dict[str, Measured]:
        """Returns the result of each commit, given what its files are known by."""
        waiting: dict[str, str] = {}
        for sha, tree in trees.items():
            if tree and self._kept.measured(tree) is None:
                waiting.setdefault(tree, sha)
        if waiting:
            self._run(deque(waiting.items()), jobs)
        none = Measured(gaps={"": f"no {' or '.join(self._setting.paths)} yet"})
        return {sha: (tree and self._kept.measured(tree)) or none for sha, tree in trees.items()}

    def _run(self, waiting: deque[tuple[str, str]], jobs: int) -> None:
        count, began = len(waiting), time.monotonic()
        errors: list[Exception] = []

        def work(one: Worker) -> None:
            try:
                while not one.is_closed:
                    with self._lock:
                        if not waiting:
                            return
                        tree, sha = waiting.popleft()
                        done = count - len(waiting) - 1
                    self._show(_progress(done, count, time.monotonic() - began, sha))
                    sample = one.sample_at(sha, *PLAIN)
                    with self._lock:
                        if not one.is_closed:
                            found = measured(sample, self._setting.program, one.root)
                            self._kept.keep(tree, found, write=sample.ended)
            except Exception as error:  # the main thread raises it
                errors.append(error)

        with ExitStack() as stack:  # an interrupt ends the processes, and so the threads
            workers = [stack.enter_context(worker(self._setting)) for _ in range(min(jobs, count))]
            threads = [Thread(target=work, args=(one,), daemon=True) for one in workers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]

    def causes(self, steps: Sequence[Step], trees: dict[str, str]) -> dict[Step, Cause]:
        """Returns what two runs of each step tell of it, with the tensors at both peaks.

        The process that they are copies of is a new one, which measured nothing.
        """
        found: dict[Step, Cause] = {}
        unknown: dict[tuple[str, str], list[Step]] = {}
        for step in steps:
            cause = self._kept.cause(step.row, trees[step.parent], trees[step.sha])
            if cause is None:
                unknown.setdefault((step.parent, step.sha), []).append(step)
            else:
                found[step] = cause
        if not unknown:
            return found
        with worker(self._setting) as one:
            for number, ((parent, sha), some) in enumerate(unknown.items()):
                self._show(f"confirming step {number + 1} of {len(unknown)}, {sha[:10]}")
                rows = [step.row for step in some]
                before, after = (self._alone(one, commit, rows) for commit in (parent, sha))
                for step in some:
                    cause = found[step] = _cause(step.row, before, after)
                    self._kept.keep_cause(step.row, trees[parent], trees[sha], cause=cause)
        return found

    def _alone(self, one: Worker, commit: str, rows: Sequence[str]) -> _Alone:
        with tempfile.TemporaryDirectory(prefix="attnmem-") as folder:
            path = Path(folder).resolve() / "baseline.json"
            sample = one.sample_at(commit, f"--attnmem-baseline={path}", *LISTING, rows=rows)
            names = {_name(row, self._setting.program): row for row in sample.rows}
            return _Alone(sample, names, entries(path, sample))


@dataclass(frozen=True, slots=True)
class _Alone:
    """A session that lists the tensors of every row."""

    sample: Sample
    rows: dict[str, Row]
    entries: Mapping[Row, Entry]

    def record(self, name: str) -> Record | None:
        return self.sample.rows[self.rows[name]] if name in self.rows else None


def measured(sample: Sample, program: Program | None, root: Path) -> Measured:
    """Returns the bytes of each row, and why other tests have none, without the folder's name."""
    values: dict[str, int] = {}
    gaps: dict[str, str] = {}
    for row, record in sample.rows.items():
        name = _name(row, program)
        error = sample.problems.get(record.nodeid, "")
        if record.out_of_memory:
            gaps[name] = f"out of memory: {record.out_of_memory}"
        elif error and not (record.fails or record.is_expected_failure):
            gaps[name] = error  # its peak is that of a part of its body
        elif record.value is not None:
            values[name] = record.value
    for test, error in sample.problems.items():
        name = _name((test, "", "peak"), program)
        if name not in values:
            gaps.setdefault(name, error)
    if sample.problem:
        gaps.setdefault("", sample.problem)
    gaps = {name: why.replace(f"{root}{os.sep}", "") for name, why in gaps.items()}
    return Measured(values, gaps, sample.used)


def _name(row: Row, program: Program | None) -> str:
    name = row_name(row)
    return name if program is None else name.rpartition("::")[2]


def _cause(row: str, old: _Alone, new: _Alone) -> Cause:
    before, after = old.record(row), new.record(row)
    if before is None or after is None:
        return Cause(before.value if before else None, after.value if after else None)
    change = terms(new.rows[row], old.entries, new.entries, new.sample)
    changes = held_changes(before.held, after.held)
    largest = sorted(changes, key=lambda one: -abs(one.delta))[:_TENSORS]
    tensors = tuple(_tensor(one) for one in sorted(largest, key=lambda one: -one.delta))
    return Cause(before.value, after.value, change, tensors)


def _tensor(change: HeldChange) -> TensorChange:
    held = change.held
    kind = f"{held.op} {held.dtype} {[*held.shape]}"
    text = next(lines([change], 1))
    return TensorChange(text, kind, change.delta, term(change), held.holder)


def _progress(done: int, count: int, seconds: float, sha: str) -> str:
    left = f", {_span(seconds / done * (count - done))} left" if done else ""
    return f"measured {done} of {count} commits{left}, now {sha[:10]}"


def _span(seconds: float) -> str:
    hours, minutes = divmod(round(seconds) // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else "a minute"
