"""Rows of every kind that a report may have."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.measurement.environment import describe
from pytest_attnmem.measurement.held import SCRATCH_SUFFIX, Held
from pytest_attnmem.measurement.measurement import METRICS
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.json import render
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

sizes = st.integers(-(2**60), 2**60)
maybe = st.none() | sizes
#: Any characters, with lone surrogates, and often characters with a meaning in some format.
texts = st.text(max_size=12) | st.text("|`\\\n<>&*_@=+-'\"%:, \ud800aé", max_size=12)
held = st.builds(
    Held, sizes, st.lists(sizes, max_size=4).map(tuple), texts, texts, texts, texts
).map(lambda held: replace(held, scratch=held.op.endswith(SCRATCH_SUFFIX)))


def lives(alive: list[tuple[Held, bool]], note: str) -> Timeline:
    """Returns a timeline in which all tensors are allocated before any is freed."""
    count = len(alive)
    spans = (
        Allocation(held, place, count + place if freed else None)
        for place, (held, freed) in enumerate(alive)
    )
    return Timeline(2 * count, tuple(spans), note)


timelines = st.builds(lives, st.lists(st.tuples(held, st.booleans()), max_size=3), texts)
growth = st.fixed_dictionaries(
    {
        "sizes": st.dictionaries(texts, st.lists(sizes, max_size=3), max_size=2),
        "peaks": st.lists(sizes, max_size=3),
        "formula": st.none() | texts,
    }
)
records = st.builds(
    Record,
    nodeid=texts,
    region=texts,
    outcome=st.none() | st.sampled_from(Outcome),
    reason=texts,
    metric=st.sampled_from(METRICS),
    backend=texts,
    device=texts,
    shape=st.dictionaries(texts, sizes, max_size=3),
    budget=texts,
    limit_bytes=maybe,
    peak_bytes=maybe,
    allocated_bytes=maybe,
    reserved_bytes=maybe,
    retained_bytes=maybe,
    baseline_bytes=maybe,
    baseline_state=st.sampled_from(["", "new", "other torch", "same", "regressed", "improved"]),
    baseline_torch=st.sampled_from(["", "2.13", "unknown"]),
    workspace_bytes=sizes,
    allocations=sizes,
    duration_s=st.floats(0, 1e6),
    held=st.lists(held, max_size=2).map(tuple),
    where=texts,
    timeline=st.none() | timelines,
    growth=st.lists(growth, max_size=2).map(tuple),
    explanation=st.lists(texts, max_size=2).map(tuple),
)

GROWN = {"sizes": {"N": [32, 64]}, "peaks": [1024, 2048], "formula": "32*N", "over": [-8, 1016]}
OVER = Record(
    "a.py::test[é]",
    outcome=Outcome.OVER,
    reason="peak 2.0 KiB exceeds budget 1.0 KiB (2.0x) on cpu",
    backend="cpu",
    device="cpu",
    shape={"B": 1, "N": 64},
    budget="16*N",
    limit_bytes=1024,
    peak_bytes=2048,
    allocated_bytes=2048,
    retained_bytes=0,
    workspace_bytes=512,
    allocations=2,
    duration_s=0.25,
    held=(Held(2048, (8, 64), "float32", "mm", "attn.py:3", "attention"),),
)
KEPT = Record(
    "a.py::test_a",
    outcome=Outcome.WITHIN,
    backend="cpu",
    device="cpu",
    shape={"B": 1, "N": 64, "M": 64},
    limit_bytes=4096,
    peak_bytes=3072,
)
WHOLE = replace(
    OVER,
    held=(
        replace(
            OVER.held[0],
            module="blocks.0",
            role="gradient",
            dims=("H", "d"),
            by="einops/_backends.py:291",
            holder="Loop.outputs[3]",
        ),
    ),
    where="a.py:3",
    baseline_bytes=1024,
    baseline_state="regressed",
    timeline=Timeline(2, (Allocation(OVER.held[0], 0, 1),), "the second run"),
    growth=(GROWN,),
)
RECORDS = (
    OVER,
    Record("b.py::test", outcome=Outcome.NOT_ENFORCED, reason="skipped: no GPU"),
    replace(OVER, nodeid="b.py::test", region="scores", outcome=None, reason="", budget=""),
)


def file(rows: Iterable[Record] = RECORDS) -> dict[str, Any]:
    """Returns the data of a written file, to change it."""
    data: dict[str, Any] = json.loads(render(summarise(rows), describe()))
    return data
