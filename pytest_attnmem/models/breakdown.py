"""The tensors at a peak, by module and by term. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ..measurement.held import SAVED, Held
from ..measurement.tensor_groups import general
from .labels import Notes

#: The terms, in the order of the table's columns.
TERMS: Final = (
    "weights",
    "gradients",
    "optimizer state",
    "saved for backward",
    "temporary",
    "logits and loss",
    "KV cache",
    "inputs",
    "workspaces",
)

#: The names of rows for tensors that no module made.
LOSS: Final = "(loss)"
BACKWARD: Final = "(backward)"
OUTSIDE: Final = "(outside modules)"
LIBRARIES: Final = "(libraries)"


_ROLES: Final = MappingProxyType(
    {
        "weights": "parameter",
        "gradients": "gradient",
        "optimizer state": "optimizer",
        "saved for backward": SAVED,
    }
)


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor at the peak, with its place in the table."""

    module: str
    """The path of its module, ``model.layers.3.mlp``, or a name in brackets."""
    term: str
    held: Held

    @property
    def tensor(self) -> Held:
        """Returns the tensor with its module, and the role that its term is."""
        module = self.module if not self.module.startswith("(") else ""
        return replace(self.held, module=module, role=_ROLES.get(self.term, self.held.role))


def parts_of(at_peak: Iterable[tuple[int, Held]], notes: Notes, vocab: int) -> tuple[Part, ...]:
    """Returns the tensors at the peak, each with a module and one term.

    ``at_peak`` are tensors by number of allocation. ``vocab`` is the number of logits of a token,
    or 0.
    """
    return tuple(Part(*_place(number, held, notes, vocab), held) for number, held in at_peak)


def _place(number: int, held: Held, notes: Notes, vocab: int) -> tuple[str, str]:
    term = _term(number, held, notes, vocab)
    if term == "workspaces":
        return LIBRARIES, term
    owner = notes.labels[number].module if number in notes.labels else ""
    if owner or held.module:
        return owner or held.module, term
    if term == "logits and loss":
        return LOSS, term
    return BACKWARD if notes.made_in.get(number) == "backward" else OUTSIDE, term


def _term(number: int, held: Held, notes: Notes, vocab: int) -> str:
    """Returns the term of a tensor.

    A name that the program knows counts first. A tensor whose last dimension is the vocabulary is
    one of logits. A tensor that a forward pass with gradients left alive is saved for backward.
    """
    if number in notes.labels:
        return notes.labels[number].term
    if held.workspace:
        return "workspaces"
    step = notes.made_in.get(number) == "optimizer"
    if vocab and held.shape and held.shape[-1] == vocab and not step:
        return "logits and loss"
    return "saved for backward" if notes.trains and number in notes.forward else "temporary"


def table_of(parts: Iterable[Part], *, whole: bool = False) -> dict[str, Counter[str]]:
    """Returns the bytes by module and term, the largest module first; they sum to the peak.

    Equal modules of all layers are one row, ``model.layers.*.mlp``; modules below that are in it,
    unless ``whole``.
    """
    rows: dict[str, Counter[str]] = {}
    for part in parts:
        path = general(part.module)
        name = path if whole else folded(path)
        rows.setdefault(name, Counter())[part.term] += part.held.nbytes
    return dict(sorted(rows.items(), key=lambda row: (-row[1].total(), row[0])))


def bytes_by_part(parts: Iterable[Part]) -> dict[str, int]:
    """Returns the bytes of each cell of the table: ``saved for backward of blocks.*.mlp``."""
    cells = Counter[str]()
    for part in parts:
        cells[f"{part.term} of {folded(general(part.module))}"] += part.held.nbytes
    return dict(sorted(cells.items()))


def folded(path: str) -> str:
    """Returns ``model.layers.*.mlp`` for ``model.layers.*.mlp.gate_proj``; two names elsewhere."""
    names = path.split(".")
    end = names.index("*") + 2 if "*" in names else 2
    return ".".join(names[:end])


def term_bytes(parts: Iterable[Part]) -> dict[str, int]:
    """Returns the bytes of each term that has any, in the order of ``TERMS``."""
    sums: Mapping[str, int] = sum(
        (Counter({part.term: part.held.nbytes}) for part in parts), Counter()
    )
    return {term: sums[term] for term in TERMS if sums.get(term)}
