"""A model's memory as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..measurement.held import Held
from ..measurement.tensor_groups import general
from ..units import format_count, format_size, format_with_bytes
from .breakdown import TERMS, Part, table_of, term_bytes
from .model_memory import ModelMemory
from .search import Longest

#: The number of groups of tensors that are listed.
_SHOWN = 12

#: The terms whose tensors are one line each: their sizes are those of the parameters.
_WHOLE = ("weights", "gradients", "optimizer state")


def render(found: ModelMemory, capacity: int, searches: tuple[Longest, ...] = ()) -> list[str]:
    """Returns the largest sizes, the peak, the table of modules and terms, and the tensors at it.

    ``capacity`` is the memory of the device in bytes, or 0 where it is not known.
    """
    lines = [*(_searched(one, found) for one in searches), *_answer(found, capacity)]
    if found.parts:
        lines += ["", *_table(found), "", *_tensors(found)]
    return lines


def _answer(found: ModelMemory, capacity: int) -> Iterator[str]:
    measured = found.measurement
    room = f", which has {format_size(capacity)}" if capacity else ""
    verdict = "it fits" if found.fits else f"it does not fit: {measured.out_of_memory}"
    yield f"peak {format_with_bytes(found.peak_bytes)} on {measured.place}{room}: {verdict}"
    yield f"  {found.recipe}; {found.parameters:,} parameters"
    beside = []
    if measured.allocated_bytes is not None and measured.reserved_bytes is not None:
        beside.append(
            f"{format_size(measured.allocated_bytes)} allocated,"
            f" {format_size(measured.reserved_bytes)} reserved, with the making of the model"
        )
    if measured.workspace_bytes:
        beside.append(f"beside it {format_size(measured.workspace_bytes)} of cuBLAS workspaces")
    if beside:
        yield "  " + "; ".join(beside)


def _searched(one: Longest, found: ModelMemory) -> str:
    place = found.measurement.place
    if not one.size:
        return f"not even {one.symbol}=1 fits {place}"
    if one.size == one.limit:
        return f"{one.symbol}={one.size:,} fits {place}; nothing larger was tried"
    return f"{one.symbol}={one.size:,} is the largest that fits {place}; one more does not"


def _table(found: ModelMemory) -> Iterator[str]:
    from tabulate import tabulate

    terms = [term for term in TERMS if term in found.terms]
    rows = []
    for module, row in table_of(found.parts).items():
        cells = [format_size(row[term]) if row[term] else "" for term in terms]
        rows.append([module, *cells, format_size(row.total()), _share(row.total(), found)])
    sums = found.terms
    rows.append(["sum", *(format_size(sums[t]) for t in terms), format_size(found.peak_bytes), ""])
    rows.append(["share", *(_share(sums[t], found) for t in terms), "", ""])
    text = tabulate(
        rows,
        headers=["module", *terms, "sum", "share"],
        colalign=["left", *["right"] * (len(terms) + 2)],
        disable_numparse=True,
    )
    return (line.rstrip() for line in text.splitlines())


def _share(nbytes: int, found: ModelMemory) -> str:
    return f"{100 * nbytes / found.peak_bytes:.1f}%" if found.peak_bytes else ""


def _tensors(found: ModelMemory) -> Iterator[str]:
    groups: dict[tuple[str, Held], Counter[str]] = {}
    whole: Counter[str] = Counter()
    for part in found.parts:
        if part.term in _WHOLE:
            whole[part.term] += 1
            continue
        alike = replace(part.held, module=general(part.module), role="", dims=())
        groups.setdefault((part.term, alike), Counter())[part.module] += 1
    sums = term_bytes(found.parts)
    lines = [
        (sums[term], f"{format_size(sums[term])}  {term}: {format_count(count, 'tensor')}")
        for term, count in whole.items()
    ]
    lines += [
        (held.nbytes * modules.total(), _group(term, held, modules))
        for (term, held), modules in groups.items()
    ]
    lines.sort(key=lambda line: -line[0])
    yield f"held at the peak ({format_count(len(found.parts), 'tensor')}):"
    yield from (f"  {text}" for _, text in lines[:_SHOWN])
    if rest := lines[_SHOWN:]:
        together = format_size(sum(size for size, _ in rest))
        yield f"  and {format_count(len(rest), 'more line')}, {together} together"


def _group(term: str, held: Held, modules: Counter[str]) -> str:
    count = modules.total()
    size = f"{count} × {format_size(held.nbytes)}" if count > 1 else format_size(held.nbytes)
    module = next(iter(modules)) if len(modules) == 1 else held.module
    tensor = f"{list(held.shape)} {held.dtype}" if held.dtype else ""
    where = "" if term == "inputs" else held.where  # no line of the program makes them
    return "  ".join(filter(None, (size, f"{term},", module, tensor, held.op, where)))


def to_dict(
    found: ModelMemory, capacity: int, searches: tuple[Longest, ...] = ()
) -> dict[str, Any]:
    """Returns the result as JSON values; ``modules`` has every module, ``parts`` every tensor."""
    measured = found.measurement
    return {
        "recipe": str(found.recipe),
        "backend": measured.backend,
        "capacity_bytes": capacity or None,
        "fits": found.fits,
        "out_of_memory": measured.out_of_memory,
        "peak_bytes": found.peak_bytes,
        "allocated_bytes": measured.allocated_bytes,
        "reserved_bytes": measured.reserved_bytes,
        "workspace_bytes": measured.workspace_bytes,
        "parameters": found.parameters,
        "sizes": dict(found.sizes),
        "terms": found.terms,
        "modules": {module: dict(row) for module, row in table_of(found.parts, whole=True).items()},
        "parts": [_part(part) for part in found.parts],
        "largest": {one.symbol: one.size for one in searches},
    }


def _part(part: Part) -> dict[str, Any]:
    held = part.held
    return {
        "module": part.module,
        "term": part.term,
        "bytes": held.nbytes,
        "shape": list(held.shape),
        "dtype": held.dtype,
        "op": held.op,
        "where": held.where,
    }
