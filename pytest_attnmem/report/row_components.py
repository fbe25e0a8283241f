"""What the panel of components has of a row: its peak told apart, to the byte."""

from __future__ import annotations

from dataclasses import replace

from ..measurement.peak_components import UNSEEN, Component, decompose
from .record import Record

#: What is missing to the number that was measured, or is too much for it.
NOT_ATTRIBUTED = "not attributed"

#: The most components that are told apart.
_MOST = 12


def components(row: Record) -> tuple[Component, ...]:
    """Largest first; they sum to what was held. Nothing where that or its tensors are not known.

    A row that is held to what is retained lists the tensors at the end, all others those at the
    peak. No workspace is a component: it was primed, and is part of neither.
    """
    total = row.retained_bytes if row.metric == "retained" else row.peak_bytes
    if total is None or not row.held:
        return ()
    parts = [
        replace(part, name=NOT_ATTRIBUTED, growth="") if part.name == UNSEEN else part
        for part in decompose({"": row.held}, peak_bytes=total)
    ]
    small = [part for part in parts[_MOST - 1 :] if part.name != NOT_ATTRIBUTED]
    if len(small) < 2:
        return tuple(parts)
    others = Component(
        "other tensors",
        sum(part.nbytes for part in small),
        sum(part.count for part in small),
        "",
        " + ".join(part.formula for part in small),
    )
    kept = [part for part in parts if part not in small]
    return tuple(sorted([*kept, others], key=lambda part: -part.nbytes))
