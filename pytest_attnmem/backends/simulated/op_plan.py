"""One operator's call, and what happens to memory while a CUDA device runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...profiles import DeviceProfile


@dataclass(frozen=True, slots=True)
class OpCall:
    """One dispatched operator, as a CUDA kernel would see it."""

    op: str  # "aten.bmm.default"
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Any, ...]  # the tensors it returned that have a new storage, in that order
    profile: DeviceProfile
    deterministic: bool  # torch.are_deterministic_algorithms_enabled()


@dataclass(frozen=True, slots=True)
class Output:
    """The storage of ``outputs[index]`` is allocated now.

    ``nbytes`` is given where CUDA makes a storage of another size than other devices do.
    """

    index: int
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class Temporary:
    """Allocated now, and freed by its ``Free``, or when the operator ends: the youngest first."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Free:
    """The temporary of that name is freed now."""

    name: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """Allocated now, unless this thread's handle has it on this stream, and kept for ever."""

    name: str = "cublas"


Step = Output | Temporary | Free | Workspace
AllocationPlan = tuple[Step, ...]
Rule = Callable[[OpCall], AllocationPlan | None]  # nothing where what happens is not known
#: A rule for every operator; ``None`` of one that nobody knows.
Planner = Callable[[OpCall], "AllocationPlan | None"]
