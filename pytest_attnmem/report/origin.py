"""When and from which commit the results of a session are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

#: The variables with the commit of a job, for a copy of the files that is not a repository.
_COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA")
_TIMEOUT_S: Final = 10


def origin(root: Path, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Returns the time in UTC, and the commit of the files at ``root``.

    Without a repository or git, the commit is the job's, or None. ``uncommitted_changes`` is True
    if git tracks a file that is not as in the commit.
    """
    commit = _git(root, "rev-parse", "HEAD")
    changes = bool(_git(root, "status", "--porcelain", "--untracked-files=no")) if commit else False
    known = (environ[name] for name in _COMMITS if environ.get(name))
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit or next(known, None),
        "uncommitted_changes": changes,
    }


def _git(root: Path, *arguments: str) -> str:
    """Returns the output of git; empty if it fails."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
