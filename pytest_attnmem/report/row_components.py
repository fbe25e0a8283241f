"""The components of a row's peak, exact to the byte, for the panel of the HTML page."""

from __future__ import annotations

from dataclasses import replace

from ..measurement.peak_components import Component, decompose
from .record import Record

#: The difference between the measured number and the sum of the known tensors.
NOT_ATTRIBUTED = "not attributed"

#: The most components; smaller ones are added up.
_MOST = 12


def components(row: Record) -> tuple[Component, ...]:
    """Returns the components, largest first; they sum to the measured number.

    There are none if the number or its tensors are unknown. A row with the metric ``retained``
    lists the tensors at the end, every other row lists the tensors at the peak. A workspace is not
    a component, because no measurement includes it.
    """
    total = row.retained_bytes if row.metric == "retained" else row.peak_bytes
    if total is None or not row.held:
        return ()
    parts = [
        part if part.has_tensors else replace(part, name=NOT_ATTRIBUTED, growth="")
        for part in decompose({"": row.held}, peak_bytes=total)
    ]
    small = [part for part in parts[_MOST - 1 :] if part.has_tensors]
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
