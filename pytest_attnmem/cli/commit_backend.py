"""The backend that ``bisect`` and ``history`` measure commits with."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Final

from ..backends.registry import BACKENDS, check_name
from ..commits.commit_files import commit_files
from ..commits.repository import Repository
from ..errors import AttnMemError
from ..plugin.project_backend import given_backend, project_backend
from ..profiles import DEFAULT_PROFILE

#: Where neither the option nor the ini file names one.
DEFAULT: Final = f"simulated:{DEFAULT_PROFILE}"
#: Where pytest looks for its settings, and for the root of a project without any.
_SETTINGS: Final = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg", "setup.py"),
)


def add_backend(parser: ArgumentParser, end: str) -> None:
    """Adds the option; ``end`` names the commit whose ini file counts."""
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help=f"as of pytest --attnmem-backend (default: attnmem_backend of the {end} commit's ini"
        f" file, else {DEFAULT})",
    )


def check_backend(named: str | None, words: Sequence[str]) -> None:
    """Checks the option, that pytest's words name no backend of their own, and that torch is here.

    Raises:
        AttnMemError: the backend is unknown, pytest's words name one, or there is no torch.
    """
    if find_spec("torch") is None:
        raise AttnMemError("needs torch, which is not installed; pip install torch")
    if named is not None:
        check_name(named, BACKENDS)
    if given := given_backend(words):
        raise AttnMemError(
            f"--attnmem-backend {given} after --: all commits are measured with one backend; write"
            f" --backend {given} before --"
        )


def backend_at(repository: Repository, commit: str, words: Sequence[str]) -> str:
    """Returns the backend that pytest would read of a commit's files; else the default.

    Raises:
        AttnMemError: it is unknown, or git fails.
    """
    tests = [repository.path_from_root(w.partition("::")[0]) for w in words if w[:1] != "-"]
    places = [PurePosixPath(path) for path in (repository.folder, *filter(None, tests))]
    folders = dict.fromkeys(one for place in places for one in (place, *place.parents))
    only = [
        *(str(folder / name) for folder in folders for name in _SETTINGS),
        *map(str, places[1:]),
    ]
    with commit_files(repository, only=only) as files:
        files.check_out(commit)
        folder = files.path / repository.folder
        folder.mkdir(parents=True, exist_ok=True)
        found = project_backend(folder, words)
    if found in ("", "auto"):
        return DEFAULT
    try:
        check_name(found, BACKENDS)
    except AttnMemError as error:
        raise AttnMemError(f"attnmem_backend of {commit[:10]}: {error}") from error
    return found
