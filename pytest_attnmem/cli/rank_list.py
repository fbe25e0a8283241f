"""The ranks that a run of many ranks runs: ``0,last``, ``all``, ``0-3,17``."""

from __future__ import annotations

import re

from ..errors import AttnMemError
from ..units import shown

_PART = re.compile(r"(\d{1,18}|last)(?:-(\d{1,18}|last))?", re.ASCII)


def rank_list(text: str, world: int) -> list[int]:
    """Returns the ranks of a list, in order, each once.

    Raises:
        AttnMemError: it is not a list, or names a rank that is not in the world.
    """
    if text.strip() == "all":
        return [*range(world)]
    ranks = set[int]()
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise AttnMemError(
                f"--rank: found {shown(part.strip())}; expected all, or ranks such as 0,last or 0-3"
            )
        ends = [world - 1 if end == "last" else int(end) for end in found.groups() if end]
        if max(ends) >= world or ends[0] > ends[-1]:
            raise AttnMemError(
                f"--rank: found {shown(part.strip())}; expected ranks from 0 to {world - 1},"
                " as in 0,last"
            )
        ranks.update(range(ends[0], ends[-1] + 1))
    return sorted(ranks)


def shown_ranks(ranks: list[int]) -> str:
    """Returns ``0-3, 7`` for sorted ranks."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and parts[-1][-1] == rank - 1:
            parts[-1] = [parts[-1][0], rank]
        else:
            parts.append([rank])
    return ", ".join("-".join(map(str, part)) for part in parts)
