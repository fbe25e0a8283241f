"""One row for the ranks of a test whose results are equal: ``test_step[rank0..7]``."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final

from .record import Record
from .summary import Summary, summarise

#: The rank in the parameters of a test, as ``plugin.ranks`` writes it.
_RANK: Final = re.compile(r"(.*\[(?:[^\]]*-)?rank)(\d+)([-\]].*)", re.DOTALL)
_SYMBOL: Final = "rank"

#: A row without its rank, and its ranks, by what the table shows of it.
_Rows = dict[tuple[object, ...], tuple[Record, list[int]]]


def with_equal_ranks_together(summary: Summary) -> Summary:
    """Returns the summary with one row for equal ranks; rows of other tests are as they were."""
    others, equal = list[Record](), _Rows()
    for row in summary.records:
        found = _RANK.fullmatch(row.nodeid)
        if found is None or row.shape.get(_SYMBOL) != int(found[2]):
            others.append(row)
            continue
        row, (before, rank, after) = _without_rank(row), found.groups()
        _, ranks = equal.setdefault((before, after, *_shown(row)), (row, []))
        ranks.append(int(rank))
    folded = (
        replace(row, nodeid=f"{before}{_ranks(sorted(ranks))}{after}")
        for (before, after, *_), (row, ranks) in equal.items()
    )
    return summarise([*others, *folded])


def _without_rank(row: Record) -> Record:
    shape = {name: value for name, value in row.shape.items() if name != _SYMBOL}
    return replace(row, shape=shape)


def _shown(row: Record) -> tuple[object, ...]:
    """Returns what the table and the notes show of a row, but its name."""
    measured = (row.metric, row.value, row.backend, row.device, row.out_of_memory)
    judged = (row.outcome, row.expected, row.reason, row.budget, row.limit_bytes)
    baseline = (row.baseline_bytes, row.baseline_state, row.baseline_torch)
    return (row.region, *sorted(row.shape.items()), *measured, *judged, *baseline)


def _ranks(ranks: list[int]) -> str:
    """Returns ``0..3,7`` for sorted ranks."""
    starts = [ranks[0], *(after for before, after in pairwise(ranks) if after != before + 1)]
    ends = [*(before for before, after in pairwise(ranks) if after != before + 1), ranks[-1]]
    return ",".join(
        str(start) if start == end else f"{start}..{end}"
        for start, end in zip(starts, ends, strict=True)
    )
