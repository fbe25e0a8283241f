"""The page of ``attnmem model --html``: what is alive over the run, by module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..measurement.environment import describe
from ..measurement.held import Held
from ..measurement.tensor_groups import ROLES, general
from ..measurement.timeline import Allocation, Timeline
from ..models.breakdown import OUTSIDE, folded, table_of
from ..models.model_memory import ModelMemory, ModelRun
from ..report.html import render
from ..report.origin import origin
from ..report.record import record
from ..report.summary import summarise


def page(name: str, run: ModelRun, found: ModelMemory) -> str:
    """Returns the page of one model: its peak, the largest tensors, and the timeline by module."""
    measured = replace(
        found.measurement,
        held=tuple(
            replace(part.held, op=": ".join(filter(None, (general(part.module), part.held.op))))
            for part in sorted(found.parts, key=lambda part: -part.held.nbytes)
        ),
        timeline=by_module(run.timeline(), found),
    )
    row = record(name, str(found.recipe), None, measured, found.sizes)
    facts = {**describe(), **origin(Path.cwd())}
    return render(summarise([row]), facts)


def by_module(life: Timeline | None, found: ModelMemory) -> Timeline | None:
    """Returns the timeline with a layer for each module, and each module's weights under it."""
    if life is None:
        return None
    weights = [part for part in found.parts if part.term == "weights"]
    below = [
        Allocation(Held(row.total(), (), "weights", module, ""), 0, None)
        for module, row in table_of(weights).items()
    ]
    above = [replace(span, held=_of_module(span.held, span.held.module)) for span in life.spans]
    return replace(life, spans=(*below, *above))


def _of_module(held: Held, module: str) -> Held:
    """Returns a tensor that stands for its module: tensors of one module share a colour."""
    if not (held.dtype or held.scratch or module):
        return held  # the sum of those that are not listed
    place = folded(general(module)) if module else ROLES.get(held.role, OUTSIDE)
    return Held(held.nbytes, held.shape, held.dtype or "scratch", place, "")
