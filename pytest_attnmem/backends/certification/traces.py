"""What a call allocates and frees, as text: ``out0:24 t0:512 -t0 kept:8519680``.

``out0:24`` is the storage of the first result and its bytes, ``t0`` scratch, ``-t0`` its free, and
``kept`` memory that is alive when the operator has ended and that no result has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..simulated.op_plan import AllocationPlan, Free, Output, Temporary, Unplanned, Workspace
from ..simulated.workspaces import Workspaces

if TYPE_CHECKING:
    import torch


def of_history(entries: Sequence[Mapping[str, Any]], results: Sequence[torch.Tensor]) -> str:
    """Returns the trace of a call from the history that PyTorch's allocator keeps."""
    places = {one.untyped_storage().data_ptr(): place for place, one in enumerate(results)}
    live: dict[int, int] = {}
    events: list[tuple[int, int | None]] = []
    names: dict[int, str] = {}
    for entry in entries:
        if entry["action"] == "alloc":
            live[entry["addr"]] = len(events)
            events.append((len(events), entry["size"]))
        elif entry["action"] == "free_requested" and entry["addr"] in live:
            events.append((live.pop(entry["addr"]), None))
    for address, event in live.items():
        names[event] = f"out{places[address]}" if address in places else "kept"
    count = 0
    for event, size in events:
        if size is not None and event not in names:
            names[event] = f"t{count}"
            count += 1
    return " ".join(f"-{names[e]}" if size is None else f"{names[e]}:{size}" for e, size in events)


def of_plan(
    steps: AllocationPlan, results: Sequence[torch.Tensor], libraries: Workspaces, *, cold: bool
) -> str:
    """Returns the trace of a plan; results that the device does not make have no number."""
    sizes = {step.index: _nbytes(step, results) for step in steps if isinstance(step, Output)}
    made = (index for index, nbytes in sorted(sizes.items()) if nbytes)
    numbers = {index: number for number, index in enumerate(made)}
    words: list[str] = []
    live: dict[str, str] = {}
    count = 0
    for step in steps:
        if isinstance(step, Output):
            if step.index in numbers:
                words.append(f"out{numbers[step.index]}:{sizes[step.index]}")
        elif isinstance(step, Temporary):
            if step.nbytes:
                live[step.name] = f"t{count}"
                words.append(f"t{count}:{step.nbytes}")
                count += 1
        elif isinstance(step, Free):
            words += [f"-{live.pop(step.name)}"] if step.name in live else []
        elif isinstance(step, Workspace) and not libraries.kept:
            words += [f"t{count}:{libraries.of(step.library)[1]}", f"-t{count}"]
            count += 1
        elif isinstance(step, Workspace) and cold:
            words.append(f"kept:{libraries.of(step.library)[1]}")
            cold = False
    return " ".join(words + [f"-{name}" for name in reversed(live.values())])


def is_known(steps: AllocationPlan | None) -> bool:
    """Returns True if a plan has all its sizes."""
    return steps is not None and not any(isinstance(step, Unplanned) for step in steps)


def _nbytes(step: Output, results: Sequence[torch.Tensor]) -> int:
    return results[step.index].untyped_storage().nbytes() if step.nbytes is None else step.nbytes
