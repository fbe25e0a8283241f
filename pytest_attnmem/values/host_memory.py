"""The memory of the host that one noted operator takes, beside the memory that is free.

Without a check, the values of a large program would end the process: the kernel of Linux kills the
process that takes the last memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import UnknownValue
from ..units import format_size
from .compute import WIDER
from .work import scores

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from .notes import Ref

#: Bytes that an operator may take without a look at the host's memory.
SMALL: Final = 64 << 20
#: The matrices of scores, in float32, that attention holds at once.
_MATRICES: Final = 5
#: The share of the free memory that one operator may take; the estimate is not exact.
_SHARE: Final = 2

#: The files that tell the memory of the host, and of a container by both versions of cgroups.
_HOST: Final = Path("/proc/meminfo")
_CONTAINERS: Final = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (
        *(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        "total_inactive_file",
    ),
)


def require_memory(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Sequence[Ref]
) -> None:
    """Checks that the host has the memory to compute an operator.

    Raises:
        UnknownValue: it takes more than half of the memory that is free.
    """
    taken = _taken(func, args, kwargs, outputs)
    if taken < SMALL:
        return
    free = free_memory()
    if free is not None and taken * _SHARE > free:
        raise UnknownValue(
            f"it takes {format_size(taken)} of the host's memory, of which {format_size(free)}"
            " are free"
        )


def free_memory() -> int | None:
    """Returns the bytes that this process may still take; None where the system tells nothing."""
    found = [_free_on_host(), *(_free_in_container(*files) for files in _CONTAINERS)]
    return min((free for free in found if free is not None), default=None)


def _taken(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], outputs: Any) -> int:
    """Returns the bytes of the outputs, with what the CPU keeps beside them."""
    made = sum([_wide_bytes(ref) for ref in outputs])
    return made + _MATRICES * 4 * scores(func, args, kwargs)


def _wide_bytes(ref: Ref) -> int:
    """Returns the bytes of a tensor, and of the wider one in which the CPU may compute it."""
    dtype = ref.layout.dtype
    wider = WIDER.get(dtype)
    return prod(ref.shape) * (dtype.itemsize + (2 * wider.itemsize if wider else 0))


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
