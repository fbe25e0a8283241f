"""The peaks of one workload on one backend, as they travel between processes and into files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..errors import AttnMemError
from ..units import excerpt, shown

KINDS: Final = ("requested", "allocated", "reserved")


@dataclass(frozen=True, slots=True)
class Peaks:
    """The highest bytes of a window; or the reason why they are not known."""

    requested: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    problem: str = ""
    """Why there are no numbers; empty if there are."""

    @property
    def known(self) -> bool:
        """Returns True if the three numbers were measured."""
        return not self.problem

    def less(self, other: Peaks) -> tuple[int, ...]:
        """Returns the three differences, in bytes. Both must be known."""
        pairs = ((getattr(self, kind), getattr(other, kind)) for kind in KINDS)
        return tuple(own - its for own, its in pairs)

    def as_json(self) -> dict[str, Any]:
        """Returns the numbers, or the problem alone."""
        return {"problem": self.problem} if self.problem else _without(asdict(self), "problem")


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _bytes(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def read_peaks(value: object, where: str) -> Peaks:
    """Returns the peaks of a JSON value.

    Raises:
        AttnMemError: it is neither three whole numbers of bytes nor a problem.
    """
    if isinstance(value, Mapping):
        problem = value.get("problem")
        if isinstance(problem, str) and problem:
            return Peaks(problem=excerpt(problem, 300))
        requested, allocated, reserved = (_bytes(value.get(kind)) for kind in KINDS)
        if requested is not None and allocated is not None and reserved is not None:
            return Peaks(requested, allocated, reserved)
    raise AttnMemError(
        f"{where} is {shown(value)}; expected {', '.join(KINDS)} in bytes, or a problem"
    )
