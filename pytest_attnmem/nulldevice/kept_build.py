"""The CUDA build of torch that is kept in the user's cache, for an environment with a CPU build.

``attnmem install null`` puts it there; processes on the null device import it, and no others.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..errors import BackendUnavailable

#: The folder that a process on the null device imports torch from. The line in ``front.pth``, which
#: stands in site-packages, puts it first; ``-I`` and ``-E`` do not hinder it.
FRONT: Final = "ATTNMEM_NULL_TORCH"


def user_cache() -> Path:
    """Returns ``$XDG_CACHE_HOME/pytest-attnmem``; ``~/.cache/…`` if the variable is not set."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(root) if os.path.isabs(root) else Path("~/.cache").expanduser()
    return base / "pytest-attnmem"


def folder(release: str) -> Path:
    """Returns the folder for a release of torch, such as 2.13.0, and this Python."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    return user_cache() / f"torch-{release}-{python}-{platform.machine()}"


def is_whole(folder: Path) -> bool:
    """Returns True if a build was installed there to its end."""
    return (folder / "torch" / "version.py").is_file()


def put_in_front(variables: Mapping[str, str]) -> None:
    """Makes this process import the kept build, if these variables name one.

    Raises:
        BackendUnavailable: another torch was imported before.
    """
    front = variables.get(FRONT, "")
    if not front:
        return
    torch = sys.modules.get("torch")
    if torch is not None and not str(torch.__file__).startswith(front + os.sep):
        raise BackendUnavailable(
            f"torch was imported from {Path(str(torch.__file__)).parent} before the null device"
            f" could put {front} in front of it: install pytest-attnmem into site-packages, where"
            " its .pth file is read"
        )
    if front not in sys.path:
        sys.path.insert(0, front)
