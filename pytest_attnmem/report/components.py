"""What the panel of components has of a row: its peak told apart, to the byte."""

from __future__ import annotations

from dataclasses import replace

from ..decomposition import UNSEEN, Component, decompose
from ..record import Record

#: What is missing to the number that was measured, or is too much for it.
NOT_ATTRIBUTED = "not attributed"


def components(row: Record) -> tuple[Component, ...]:
    """Largest first; they sum to what was held. Nothing where that or its tensors are not known.

    A row that is held to what is retained lists the tensors at the end, all others those at the
    peak. No workspace is a component: it was primed, and is part of neither.
    """
    total = row.retained_bytes if row.metric == "retained" else row.peak_bytes
    if total is None or not row.held:
        return ()
    parts = decompose({"": row.held}, row.shape, peak_bytes=total)
    return tuple(
        replace(part, name=NOT_ATTRIBUTED, growth="") if part.name == UNSEEN else part
        for part in parts
    )
