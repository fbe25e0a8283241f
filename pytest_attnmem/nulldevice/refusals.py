"""What the null device refuses as a whole, by the calls of CUDA that ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

#: What is refused, by the names of the calls; the first that fits.
_REFUSED: Final[Mapping[re.Pattern[str], str]] = MappingProxyType(
    {
        re.compile(pattern): reason
        for pattern, reason in (
            (
                r"cu(da)?Ipc",
                "nothing can be given to another process by CUDA IPC; give a copy on the host,"
                " x.cpu()",
            ),
            (r"cusparseLt", "there is no cuSPARSELt, which multiplies semi-structured matrices"),
            (r"cusparse", "there is no cuSPARSE: its scratch is known only on a GPU"),
            (
                r"cu\w*(MemPool|MallocAsync|FreeAsync|MallocFromPool)",
                "there is no cudaMallocAsync; leave backend:cudaMallocAsync out of"
                " PYTORCH_ALLOC_CONF",
            ),
            (r"cuGreenCtx|cu\w*DevResource|cu\w*DevSm", "there are no green contexts"),
            (
                r"cuGetExportTable",
                "there is no driver for a library with a CUDA runtime of its own, as cuda.bindings"
                " is, which makes green contexts",
            ),
        )
    }
)


def refusal(call: str) -> str:
    """Returns what is refused with a call; empty if that is the call alone."""
    return next((why for pattern, why in _REFUSED.items() if pattern.match(call)), "")


def refusals(calls: Iterable[str]) -> dict[str, list[str]]:
    """Returns the calls that belong to something that is refused, by what that is."""
    found: dict[str, list[str]] = {}
    for call in calls:
        if why := refusal(call):
            found.setdefault(why, []).append(call)
    return found
