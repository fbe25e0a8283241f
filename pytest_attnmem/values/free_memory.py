"""The memory of the host that this process may still take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

#: Bytes that may be taken without a look at the host's memory.
SMALL: Final = 64 << 20

#: The files that tell the memory of the host, and of a container by both versions of cgroups.
_HOST: Final = Path("/proc/meminfo")
_CONTAINERS: Final = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (
        *(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        "total_inactive_file",
    ),
)


def free_memory() -> int | None:
    """Returns the bytes that this process may still take; None where the system tells nothing."""
    found = [_free_on_host(), *(_free_in_container(*files) for files in _CONTAINERS)]
    return min((free for free in found if free is not None), default=None)


def _free_on_host() -> int | None:
    found = re.search(r"^MemAvailable: +(\d+) kB$", _text(_HOST), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _free_in_container(folder: Path, limit: str, used: str, cached: str) -> int | None:
    most, current = _text(folder / limit).strip(), _text(folder / used).strip()
    if not (most.isdecimal() and current.isdecimal()):
        return None  # no container, or one without a limit
    cache = re.search(rf"^{cached} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
    return max(0, int(most) - int(current) + (int(cache[1]) if cache else 0))


def _text(path: Path) -> str:
    """Returns a file of the kernel; nothing where there is none."""
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return ""
