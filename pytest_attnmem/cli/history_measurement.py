"""Measures the commits that the arguments of ``attnmem history`` name."""

from __future__ import annotations

import platform
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from ..commits.commit_files import FixedTests, fixed_tests
from ..commits.repository import Listed, Repository
from ..errors import AttnMemError
from ..history.kept_results import kept_results
from ..history.measurer import Measurer, Setting
from ..history.program import program
from ..history.project_history import Point, ProjectHistory
from ..history.steps import find_steps, with_ends
from ..nulldevice.kept_build import user_cache
from ..units import excerpt
from .bisect import relative_to_here

#: Changes of these alone are no commits of the code.
_NO_CODE: Final = tuple(
    f":(top,exclude,glob){pattern}"
    for pattern in ("**/*.md", "**/*.rst", "docs/**", ".github/**", "LICENSE*", ".gitignore")
)


def measured_history(
    arguments: Namespace, repository: Repository, show: Callable[[str], None]
) -> tuple[ProjectHistory, str]:
    """Returns the history, and why results are not kept, such as a full disk.

    Raises:
        AttnMemError: an option or a commit is wrong, or git fails.
    """
    with tempfile.TemporaryDirectory(prefix="attnmem-") as folder:
        start, end = _ends(arguments.range, repository)
        setting = _setting(arguments, repository, end, Path(folder).resolve())
        listed = _listed(arguments, repository, start, end)
        trees = repository.trees([one.sha for one in listed], setting.paths)
        facts = _facts(arguments)
        kept = kept_results(
            user_cache() / "history",
            [
                *(setting.backend, facts["torch"], setting.words, setting.stand_ins, setting.paths),
                *(setting.program and setting.program.digest, _tests(setting.tests, repository)),
            ],
        )
        measurer = Measurer(setting, kept, show)
        measured = measurer.measure(trees, arguments.jobs)
        told = repository.describe([one.sha for one in listed])
        points = tuple(
            Point(
                *(one.sha, one.parents),
                *(told[one.sha].author, told[one.sha].date, told[one.sha].subject),
                *(measured[one.sha], trees[one.sha]),
            )
            for one in listed
        )
        found = ProjectHistory(repository.name, facts, points)
        steps = find_steps(points, found.rows)
        causes = measurer.causes(steps, trees)
        steps = with_ends([replace(step, cause=causes[step]) for step in steps], points)
    return replace(found, steps=tuple(steps)), kept.problem


def _ends(text: str, repository: Repository) -> tuple[str, str]:
    """Returns the hashes of both ends; the first is empty if all commits count."""
    if ".." in text:
        return repository.ends(text)
    return "", repository.resolved(text)


def _setting(arguments: Namespace, repository: Repository, end: str, folder: Path) -> Setting:
    words = [relative_to_here(word, repository.root) for word in arguments.tests]
    paths = {path: repository.path_from_root(path) for path in arguments.paths}
    for path, inside in paths.items():
        if not inside:
            raise AttnMemError(f"--paths {path}: it is outside of {repository.root}")
    own = arguments.program
    fixed = FixedTests() if own else fixed_tests(repository, arguments.tests_from, end, words)
    return Setting(
        repository,
        fixed,
        tuple(words),
        program(own, folder) if own else None,
        arguments.backend,
        arguments.timeout,
        tuple(paths.values()),
        tuple(arguments.modules),
        tuple(arguments.stand_in),
    )


def _listed(arguments: Namespace, repository: Repository, start: str, end: str) -> Sequence[Listed]:
    """Returns the commits to measure: those of this shard, and those that they follow."""
    paths = [f":(top){repository.path_from_root(path)}" for path in arguments.paths] or _NO_CODE
    every = arguments.every
    listed = repository.listed(
        start,
        end,
        paths,
        first_parent=arguments.first_parent or every > 1,
        since=arguments.since,
    )
    if every > 1:
        some = [one.sha for one in listed][::-1][::every][::-1]
        listed = [Listed(sha, tuple(some[n - 1 : n])) for n, sha in enumerate(some)]
    if not listed:
        raise AttnMemError(f"{arguments.range}: no commit changes the code there")
    part, _, parts = arguments.shard.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise AttnMemError(f"--shard: expected a part such as 2/8, got {excerpt(arguments.shard)}")
    first = len(listed) * (int(part) - 1) // int(parts)
    mine = listed[first : len(listed) * int(part) // int(parts)]
    own = {one.sha for one in mine}
    before = {sha for one in mine for sha in one.parents} - own
    return [*(Listed(one.sha) for one in listed[:first] if one.sha in before), *mine]


def _tests(tests: FixedTests, repository: Repository) -> list[str]:
    """Returns what fixed tests are known by."""
    if tests.commit:
        return [*tests.paths, repository.trees([tests.commit], tests.paths)[tests.commit]]
    files = [
        file
        for path in tests.files
        for file in ([path] if path.is_file() else sorted(path.rglob("*.*")))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    return [f"{file} {sha256(file.read_bytes()).hexdigest()}" for file in files]


def _facts(arguments: Namespace) -> dict[str, str]:
    import torch

    tests = arguments.program.name if arguments.program else " ".join(arguments.tests)
    return {
        "backend": arguments.backend,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "tests": tests,
        "commits": arguments.range,
    }
