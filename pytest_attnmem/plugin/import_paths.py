"""The import paths of a commit: what the repository's own modules are imported from."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
