"""The parts of a model that grew since its baseline: which module and which term."""

from __future__ import annotations

from collections.abc import Mapping

from ..units import format_size

#: The most parts that are listed.
_LISTED = 4


def part_changes(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Returns the parts that changed, those that grew first; empty if one side has no parts.

    ``+4.0 MiB saved for backward of blocks.*.mlp; -64.0 KiB temporary of head``. The listed changes
    and their rest sum to the change of the whole.
    """
    if not before or not now:
        return ""
    changes = {name: now.get(name, 0) - before.get(name, 0) for name in {**before, **now}}
    ordered = sorted(
        ((name, change) for name, change in changes.items() if change),
        key=lambda one: (one[1] < 0, -abs(one[1])),
    )
    texts = [f"{_signed(change)} {name}" for name, change in ordered[:_LISTED]]
    if rest := ordered[_LISTED:]:
        together = _signed(sum(change for _, change in rest))
        texts.append(f"and {together} in {len(rest)} other part{'' if len(rest) == 1 else 's'}")
    return "; ".join(texts)


def _signed(nbytes: int) -> str:
    return f"{'-' if nbytes < 0 else '+'}{format_size(abs(nbytes))}"
