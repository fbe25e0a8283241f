"""Predict the peak of a kernel on a device, phase by phase, without running it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..measurement.garbage import garbage_frozen
from ..measurement.measurement import METRICS, Measurement
from ..measurement.protocol import simulation_context
from ..models.model_memory import unlimited
from ..profiles import DeviceProfile, find_profile
from ..report.cells import aligned, size
from ..units import common_unit, format_distinct, format_size, format_with_bytes
from .kernel_workload import Workload, size_of, workload
from .kernel_workload import add_arguments as add_workload
from .terminal import answer, progress

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend

#: A workload with more steps is not simulated: it takes half a minute or more.
MAX_STEPS: Final = 200_000

#: Those of the kernel alone: it takes parts of the segments of its inputs too.
_SHOWN: Final = ("peak", "allocated", "retained")


def add_arguments(parser: ArgumentParser) -> None:
    """``flash --B 1 --H 8 --N 4096 --d 64 --dtype float16 --backward --device H100``."""
    parser.epilog = (
        "The phases come from the kernel's memory model, evaluated at the sizes. The numbers"
        " under them come from a run of the kernel on a simulated device, with the allocator of"
        " PYTORCH_CUDA_ALLOC_CONF. A kernel that loops over many blocks, which takes more than half"
        " a minute to simulate, is predicted by its model alone. Inputs, workspaces of libraries"
        " and unused parts of segments count only in the decision whether the device has room."
    )
    add_workload(parser, length=True)


def execute(arguments: Namespace) -> int:
    """Prints the phases and the numbers.

    Raises:
        AttnMemError: the kernel, dtype or device is unknown, or the sizes do not fit together.
    """
    profile = find_profile(arguments.device)
    with progress("importing torch") as show:
        found = predict(workload(arguments)(size_of("N", arguments.N)), profile, show)
    answer(arguments.json, lambda: to_dict(found), lambda: render(found))
    return 0


@dataclass(frozen=True, slots=True)
class PredictedPhase:
    """A phase of the kernel's memory model, evaluated at the sizes."""

    name: str
    tensors: dict[str, int]
    scratch: dict[str, int]
    """The scratch memory of the device's kernels."""

    @property
    def alive(self) -> int:
        """The bytes alive in the phase."""
        return sum(self.tensors.values()) + sum(self.scratch.values())


@dataclass(frozen=True, slots=True)
class Prediction:
    """The memory of a workload on a device, by its model and simulated."""

    workload: Workload
    profile: DeviceProfile
    phases: tuple[PredictedPhase, ...]
    workspace_bytes: int
    tensors: Measurement | None
    """Simulated without the scratch of operators; None if that takes too long."""
    whole: Measurement | None
    """Simulated with scratch, on the same device with unlimited memory."""
    reserved_bytes: int | None
    """All memory that the run of ``whole`` took of the device: inputs and workspaces too."""
    out_of_memory: str | None
    """The request that the device could not satisfy."""

    @property
    def largest(self) -> PredictedPhase:
        """The phase with the most bytes."""
        return max(self.phases, key=lambda phase: phase.alive)

    @property
    def model_tensors_bytes(self) -> int:
        """The model's peak without scratch."""
        return max(sum(phase.tensors.values()) for phase in self.phases)

    @property
    def needed_bytes(self) -> int:
        """The memory that the device needs, inputs and workspaces included."""
        if self.reserved_bytes is not None:
            return self.reserved_bytes
        return self.largest.alive + self.workload.inputs_bytes + self.workspace_bytes

    @property
    def fits(self) -> bool:
        """True if the device has enough memory; by the model, unless simulated."""
        if self.whole is None:
            return self.needed_bytes <= self.profile.memory_bytes
        return self.out_of_memory is None


def predict(
    work: Workload, profile: DeviceProfile, show: Callable[[str], None] = lambda text: None
) -> Prediction:
    """Returns the prediction by the model, and by simulation unless that takes long.

    Raises:
        AttnMemError: the kernel does not accept the sizes, or simulation is not available.
    """
    from ..backends.primed_backend import open_primed

    primed = open_primed(f"simulated:{profile.name}")
    backend = primed.backend
    about = format_size(work.model.peak(work.shape, backend.kinds))
    show(f"the peak is {about} by the model; simulating {work.kernel.name} on {profile.name}")
    whole, reserved = None, None
    with garbage_frozen(), simulation_context(backend):
        short = work.steps(primed) <= MAX_STEPS
        if short:
            whole, reserved = _simulated(work, primed)
    out_of_memory = whole.out_of_memory if whole else None
    if out_of_memory is not None:
        whole, reserved = _simulated(work, unlimited(profile))
    tensors = work.measured(unlimited(profile, scratch=False)) if short else None
    live = work.model.live(work.shape)
    phases = []
    for name, alive in work.model.live(work.shape, backend.kinds).items():
        own = live[name]
        scratch = {term: nbytes for term, nbytes in alive.items() if term not in own}
        phases.append(PredictedPhase(name, own, scratch))
    workspace = primed.workspace_bytes
    return Prediction(
        *(work, profile, tuple(phases), workspace, tensors, whole, reserved, out_of_memory)
    )


def _simulated(work: Workload, primed: PrimedBackend) -> tuple[Measurement, int]:
    """Returns the measurement, and the most bytes that the device reserved since its start."""
    import torch

    with simulation_context(primed.backend):
        return work.measured(primed), torch.cuda.max_memory_reserved()


def render(found: Prediction) -> list[str]:
    """Returns the answer, then the numbers that it follows from, then the phases."""
    work, name = found.workload, found.profile.name
    unit = common_unit([found.largest.alive])
    rows = [row for phase in found.phases for row in _phase(phase, phase is found.largest, unit)]
    phases = aligned(rows, ["", "phase", unit, "alive", unit], "llrlr")
    headers = ["", "tensors", f"on {name}", *_SHOWN[1:]]
    numbers = aligned(_numbers(found, unit), headers, "l" + "r" * (len(_SHOWN) + 1))
    simulated = found.whole.peak_bytes if found.whole is not None else None
    peak = format_with_bytes(found.largest.alive if simulated is None else simulated)
    head = [_answer(found), f"peak {peak}: {work}", *_notes(found)]
    return [*head, "", *numbers, "", *phases]


def _answer(found: Prediction) -> str:
    name, memory = found.profile.name, found.profile.memory_bytes
    needs, has = format_distinct(found.needed_bytes, memory)
    parts = ", ".join(_parts(found))
    if found.fits:
        return f"fits {name}: {needs} of {has}: {parts}"
    more = format_size(found.needed_bytes - memory)
    return f"out of memory on {name}: needs {needs}, {more} more than its {has}: {parts}"


def _parts(found: Prediction) -> Iterator[str]:
    """Yields the parts of the memory that the device needs."""
    inputs, workspaces = found.workload.inputs_bytes, found.workspace_bytes
    kernel = found.whole.allocated_bytes if found.whole is not None else None
    kernel = found.largest.alive if kernel is None else kernel
    yield f"inputs {format_size(inputs)}"
    yield f"workspaces {format_size(workspaces)}"
    yield f"the kernel {format_size(kernel)}"
    if (unused := found.needed_bytes - inputs - workspaces - kernel) > 0:
        yield f"unused parts of segments {format_size(unused)}"


def _phase(phase: PredictedPhase, largest: bool, unit: str) -> Iterator[list[str]]:
    lead = ["*" if largest else "", phase.name, size(phase.alive, unit)]
    alive = [*phase.tensors.items()]
    alive += [(f"{name} (scratch)", nbytes) for name, nbytes in phase.scratch.items()]
    for name, nbytes in [(name, nbytes) for name, nbytes in alive if nbytes] or [("", 0)]:
        yield [*lead, name, size(nbytes, unit)]
        lead = ["", "", ""]


def _numbers(found: Prediction, unit: str) -> list[list[str]]:
    rows: dict[str, list[int | None]] = {
        "model": [found.model_tensors_bytes, found.largest.alive, None, None]
    }
    if found.tensors is not None and found.whole is not None:
        numbers = [found.whole.value(metric) for metric in _SHOWN]
        rows["simulated"] = [found.tensors.peak_bytes, *numbers]
    return [[f"{how}, {unit}", *(size(n, unit) for n in sizes)] for how, sizes in rows.items()]


def _notes(found: Prediction) -> Iterator[str]:
    if found.whole is None:
        yield "not simulated: it loops over too many blocks; all numbers are by the model"
    else:
        if found.tensors is not None and found.tensors.peak_bytes is not None:
            difference = found.tensors.peak_bytes - found.model_tensors_bytes
            agree = f"differ by {difference:+,} B" if difference else "agree to the byte"
            yield f"the tensors of the model and of the simulation {agree}"
        if found.whole.unmeasured:
            yield f"not reliable: {found.whole.unmeasured}"


def to_dict(found: Prediction) -> dict[str, Any]:
    """Returns the result as JSON values; sizes are bytes."""
    work, whole = found.workload, found.whole
    simulated = None
    if whole is not None and found.tensors is not None:
        simulated = {
            "tensors_bytes": found.tensors.peak_bytes,
            **{f"{metric}_bytes": whole.value(metric) for metric in METRICS},
            "unmeasured": whole.unmeasured,
        }
    return {
        **work.facts(found.profile.name),
        "phases": [
            {
                "name": phase.name,
                "bytes": phase.alive,
                "largest": phase is found.largest,
                "tensors": phase.tensors,
                "scratch": phase.scratch,
            }
            for phase in found.phases
        ],
        "model": {"tensors_bytes": found.model_tensors_bytes, "peak_bytes": found.largest.alive},
        "simulated": simulated,
        "inputs_bytes": work.inputs_bytes,
        "workspace_bytes": found.workspace_bytes,
        "needed_bytes": found.needed_bytes,
        "memory_bytes": found.profile.memory_bytes,
        "fits": found.fits,
        "out_of_memory": (found.out_of_memory or "").partition(" at ")[0] or None,
    }
