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
#: The name of that file there.
LINE: Final = "pytest_attnmem_null.pth"


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
    """Returns True if a build was installed there to its end, and this user may read it."""
    return os.path.isfile(folder / "torch" / "version.py")


def variables(front: Path, over: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that make a process import the build in *front*.

    Where the package does not lie in site-packages, nothing reads its ``.pth`` file, and
    ``PYTHONPATH`` takes its place; ``-I`` and ``-E`` ignore that.
    """
    found = {FRONT: str(front)}
    if not any((Path(folder) / LINE).is_file() for folder in sys.path):
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(front), over.get("PYTHONPATH"))))
    return found


def put_in_front() -> None:
    """Has this process import torch from the build that its variables name, if any.

    A worker of pytest-xdist has the path of its controller, from before that was on the device.
    """
    front = os.environ.get(FRONT)
    if front and front not in sys.path:
        sys.path.insert(0, front)


def check_imported(torch_file: str, over: Mapping[str, str]) -> None:
    """Checks that this process imported torch from the build that these variables name, if any.

    Raises:
        BackendUnavailable: another torch came first.
    """
    front = over.get(FRONT)
    if front and not torch_file.startswith(front + os.sep):
        raise BackendUnavailable(
            f"torch was imported from {Path(torch_file).parent}, and not from {front}, where the"
            " null device has its CUDA build: install pytest-attnmem into site-packages, where its"
            " .pth file is read"
        )
