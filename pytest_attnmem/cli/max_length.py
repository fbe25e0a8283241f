"""Find the longest sequence of a kernel that fits a device."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..measurement.garbage import garbage_frozen
from ..measurement.protocol import simulation_context
from ..models.model_memory import unlimited
from ..models.search import LIMIT, longest
from ..profiles import DeviceProfile, find_profile
from ..units import format_size, format_with_bytes
from .kernel_workload import Workload, workload
from .kernel_workload import add_arguments as add_workload
from .terminal import answer, progress

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend

#: A length with more steps is not simulated: about twenty lengths are tried, a second each.
MAX_STEPS: Final = 10_000


def add_arguments(parser: ArgumentParser) -> None:
    """``flash --B 1 --H 8 --d 64 --dtype float16 --backward --device A100-80GB``."""
    parser.epilog = (
        "The kernel's memory model estimates the longest length. The kernel then runs on a"
        " simulated device, with its inputs and the workspaces of libraries, to find the exact"
        " length: it fits, and one more token does not. A kernel that loops over many blocks (about"
        f" {MAX_STEPS:,} allocations a run) is judged by its model alone: its tensors, the device's"
        " scratch, inputs and workspaces, without the allocator's rounding and fragmentation; the"
        f" answer then says 'by the model'. No length over {LIMIT:,} is tried. The number of keys"
        " is the number of queries unless --M is given."
    )
    add_workload(parser, length=False)


def execute(arguments: Namespace) -> int:
    """Prints the longest length, and the peak at it and at one more token.

    Raises:
        AttnMemError: the kernel, dtype or device is unknown, or the sizes do not fit together.
    """
    from ..backends.primed_backend import open_primed

    profile = find_profile(arguments.device)
    with progress("importing torch") as show:
        of_length = workload(arguments)
        primed = open_primed(f"simulated:{profile.name}")
        found = Search(of_length, primed, profile, show).longest()
    answer(
        arguments.json,
        lambda: to_dict(found, of_length, profile.name),
        lambda: render(found, of_length, profile.name),
    )
    return 0


@dataclass(frozen=True, slots=True)
class Length:
    """The result of one length."""

    N: int
    fits: bool
    peak_bytes: int | None
    out_of_memory: str | None = None
    unmeasured: str | None = None


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest length that fits, and the next length."""

    at: Length | None
    """None if not even one token fits."""
    next: Length | None
    """None if the limit was reached."""
    simulated: bool


class Search:
    """A search for the longest length of a workload that fits a device."""

    def __init__(
        self,
        of_length: Callable[[int], Workload],
        primed: PrimedBackend,
        profile: DeviceProfile,
        show: Callable[[str], None],
    ) -> None:
        self._of_length = of_length
        self._primed = primed
        self._profile = profile
        self._show = show
        self._simulated: dict[int, Length] = {}

    def longest(self) -> Longest:
        """Returns the longest length by the model, refined by simulation unless it takes long.

        Raises:
            BudgetError: the kernel does not accept the sizes.
        """
        about = longest(lambda N: self.by_model(N).fits)
        self._show(f"about N={about:,} by the model; simulating")
        judge = self.by_model
        # Entered once, because entering takes longer than most kernels.
        with garbage_frozen(), simulation_context(self._primed.backend):
            simulating = self._of_length(max(1, about)).steps(self._primed) <= MAX_STEPS
            if simulating:
                judge = self.simulated
                about = longest(lambda N: judge(N).fits, about)
            at = judge(about) if about else None
            over = judge(about + 1) if about < LIMIT else None
        if simulating and over is not None:  # the peak with enough memory
            with garbage_frozen():
                measured = self._of_length(over.N).measured(unlimited(self._profile))
            over = replace(over, peak_bytes=measured.peak_bytes)
        return Longest(at, over, simulating)

    def by_model(self, N: int) -> Length:
        """Returns the result of a length by the model."""
        work = self._of_length(N)
        peak = work.model.peak(work.shape, self._primed.backend.kinds)
        needed = peak + work.inputs_bytes + self._primed.workspace_bytes
        lacking = needed - self._profile.memory_bytes
        if lacking <= 0:
            return Length(N, True, peak)
        return Length(N, False, peak, f"needs {format_size(lacking)} more")

    def simulated(self, N: int) -> Length:
        """Returns the result of a length on the simulated device."""
        if N not in self._simulated:
            self._show(f"trying N={N:,}")
            measured = self._of_length(N).measured(self._primed)
            refused = (measured.out_of_memory or "").partition(" at ")[0]
            self._simulated[N] = Length(
                N, not refused, measured.peak_bytes, refused or None, measured.unmeasured
            )
        return self._simulated[N]


def render(found: Longest, of_length: Callable[[int], Workload], device: str) -> list[str]:
    """Returns the lines to print."""
    how = "simulated" if found.simulated else "by the model"
    if found.at is None:
        lack = found.next.out_of_memory if found.next else ""
        return [f"not even N=1 fits {device}: {of_length(1)}, {lack} ({how})"]
    work = of_length(found.at.N)
    lines = [f"N={found.at.N:,} is the longest that fits {device} ({how})", f"  {work}"]
    if found.next is None:
        lines[0] = f"N={found.at.N:,} fits {device} ({how}); no longer length was tried"
    inputs = f"with {format_size(work.inputs_bytes)} of inputs"
    lines.append(f"  N={found.at.N:,}: peak {_exact(found.at.peak_bytes)}, {inputs}")
    if found.next is not None:
        over = found.next
        lines.append(f"  N={over.N:,}: peak {_exact(over.peak_bytes)}, {over.out_of_memory}")
    if found.at.unmeasured:
        lines.append(f"  not reliable: {found.at.unmeasured}")
    return lines


def _exact(nbytes: int | None) -> str:
    return "-" if nbytes is None else format_with_bytes(nbytes)


def to_dict(found: Longest, of_length: Callable[[int], Workload], device: str) -> dict[str, Any]:
    """Returns the result as JSON values."""
    work = of_length(found.at.N if found.at else 1)
    return {
        **work.facts(device),
        "longest": found.at.N if found.at else None,
        "limit": LIMIT,
        "by": "simulation" if found.simulated else "model",
        "at": found.at and asdict(found.at),
        "next": found.next and asdict(found.next),
    }
