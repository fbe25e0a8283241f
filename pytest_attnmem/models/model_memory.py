"""``model``: the memory of a whole model under a recipe, by module and by term."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ..backends.primed_backend import PrimedBackend, open_primed
from ..backends.registry import restart
from ..errors import BudgetError
from ..measurement.held import Held
from ..measurement.measurement import Measurement
from ..measurement.protocol import BackendProtocol
from ..measurement.timeline import Timeline
from ..measurement.window_stack import unseen
from ..nulldevice.launch import present
from ..profiles import DeviceProfile
from ..suggestion import did_you_mean
from ..units import shown
from .breakdown import TERMS, Part, bytes_by_part, parts_of, term_bytes
from .inputs import Recipe, parse_inputs
from .labels import Notes
from .program import Program, errors_told
from .search import Longest, guess, longest


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """The memory of one recipe."""

    recipe: Recipe
    measurement: Measurement
    """The run as the backend measured it."""
    parts: tuple[Part, ...]
    """The tensors at the peak; their bytes sum to ``peak_bytes``."""
    sizes: Mapping[str, int]
    """The symbols of the recipe and of the model's config."""

    parameters: int
    """The number of parameters."""

    def __repr__(self) -> str:
        return f"<ModelMemory: {self.measurement}, {self.parameters:,} parameters>"

    @property
    def peak_bytes(self) -> int:
        """Returns the most requested bytes; before 2.15 without the workspaces cuBLAS keeps."""
        return self.measurement.peak_bytes or 0

    @property
    def fits(self) -> bool:
        """Returns True if the device had room for the run."""
        return self.measurement.out_of_memory is None

    @property
    def terms(self) -> dict[str, int]:
        """Returns the bytes at the peak by term."""
        return term_bytes(self.parts)

    def part(self, module: str = "*", term: str = "") -> Measurement:
        """Returns a measurement of what modules hold at the peak, for ``attnmem.check``.

        ``module`` is a pattern such as ``blocks.*``; it includes the modules inside. ``term`` is a
        column of the table, such as ``saved for backward``; empty: all. Formulas may read B, N,
        layers, hidden, heads, kv_heads, vocab, experts and itemsize, as far as they are known.

        Raises:
            BudgetError: no term has that name, or no tensor's module matches.
        """
        if term and term not in TERMS:
            raise BudgetError(
                f"unknown term {shown(term)}; expected one of {', '.join(TERMS)}"
                + did_you_mean(term, TERMS)
            )
        inside = [part for part in self.parts if _matches(part.module, module)]
        if not inside:
            known = ", ".join(sorted({part.module for part in self.parts})[:20])
            raise BudgetError(f"no module {shown(module)} holds memory at the peak; {known} do")
        chosen = [part for part in inside if not term or part.term == term]
        held = _largest_first(chosen)
        return replace(
            self.measurement,
            peak_bytes=sum(tensor.nbytes for tensor in held),
            allocated_bytes=None,
            reserved_bytes=None,
            retained_bytes=None,
            missing="a part of a model has only the bytes of its tensors at the peak",
            held=held,
            left=(),
            symbols=self.sizes,
            parts=bytes_by_part(chosen),
        )


def _largest_first(parts: Iterable[Part]) -> tuple[Held, ...]:
    return tuple(sorted((part.tensor for part in parts), key=lambda tensor: -tensor.nbytes))


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path, pattern + ".*")


class ModelRun:
    """Runs recipes of one model on one backend."""

    def __init__(self, source: Any, recipe: Recipe, primed: PrimedBackend) -> None:
        if "cuda" not in primed.backend.kinds:
            raise BudgetError(
                f"a model is measured on null, simulated or cuda, not on {primed.backend.name};"
                " backend='simulated:H100' needs no device"
            )
        self.source = source
        self.recipe = recipe
        self.primed = primed

    def memory(self) -> ModelMemory:
        """Returns the memory of the recipe.

        Raises:
            BudgetError: the model cannot be made, or does not take the inputs.
        """
        program = self._program(self.recipe)
        measured = replace(_run(program, Notes(self.primed)), result=None)
        primed = self.primed
        if measured.out_of_memory is not None:
            profile = getattr(primed.backend, "profile", None)
            if not isinstance(profile, DeviceProfile):
                return self._found(program, measured)
            primed = unlimited(profile)
            needed = _run(program, Notes(primed))
            measured = replace(needed, out_of_memory=measured.out_of_memory, result=None)
        notes = Notes(primed, True, bool(self.recipe.train))
        _run(program, notes)
        parts = parts_of(_at_peak(notes), notes, program.sizes.get("vocab", 0))
        total = sum(part.held.nbytes for part in parts)
        if total != measured.peak_bytes:
            raise BudgetError(
                f"the peak is {measured.peak_bytes:,} B, and a second run held {total:,} B:"
                " the model does not allocate alike in two runs"
            )
        measured = replace(
            measured,
            held=_largest_first(parts),
            symbols={**measured.symbols, **program.sizes},
            parts=bytes_by_part(parts),
        )
        return self._found(program, measured, parts)

    def largest(
        self, symbol: str, limit: int, progress: Callable[[str], None] = lambda text: None
    ) -> Longest:
        """Returns the largest size of ``symbol`` with which the recipe fits the device.

        It fits, and one more does not: both are run.
        """

        reserved: dict[int, int | None] = {}  # None where the size does not fit

        def fits(size: int) -> bool:
            if size not in reserved:
                progress(f"trying {symbol}={size:,}")
                recipe = replace(self.recipe, sizes={**self.recipe.sizes, symbol: size})
                found = _run(self._program(recipe), Notes(self.primed))
                fitting = found.out_of_memory is None
                reserved[size] = (found.reserved_bytes or 0) if fitting else None
            return reserved[size] is not None

        start = min(self.recipe.sizes.get(symbol, 1), limit)
        if fits(start) and fits(min(2 * start, limit)):
            room = capacity_of(self.primed.backend) - self.primed.workspace_bytes
            start = guess(reserved, room) or start
        found = longest(fits, start, limit)
        return Longest(symbol, found, limit)

    def timeline(self) -> Timeline | None:
        """Returns the lifetimes of the largest tensors of a run, each with its module.

        Weights are not in it; None where the backend sees no lifetimes.
        """
        notes = Notes(replace(self.primed, evidence=True), True, bool(self.recipe.train))
        _run(self._program(self.recipe), notes)
        found = notes.stages.get("run")
        return found.timeline if found is not None else None

    def _found(
        self, program: Program, measured: Measurement, parts: tuple[Part, ...] = ()
    ) -> ModelMemory:
        return ModelMemory(self.recipe, measured, parts, program.sizes, program.parameters)

    def _program(self, recipe: Recipe) -> Program:
        return Program(self.source, recipe, self.primed.backend.device)


def _run(program: Callable[[Notes], None], notes: Notes) -> Measurement:
    """Returns the measurement of a program; traced if ``notes`` are of a traced run.

    Its peak is the one after the model was made: making one may need more for a moment, which a
    program that loads weights does not. The other numbers include it.

    Raises:
        BudgetError: the model raised an error, or the backend cannot vouch for its numbers.
    """
    primed = notes.primed
    restart(primed.backend)
    with errors_told(), unseen():
        run, _ = primed.run(lambda: program(notes), trace=notes.traced)
    if run.unmeasured is not None:
        raise BudgetError(f"the peak is not known: {run.unmeasured}")
    build, used = notes.stages.get("build"), notes.stages.get("run")
    if build is None or used is None:  # the model itself does not fit
        return run
    peak = (build.retained_bytes or 0) + (used.peak_bytes or 0)
    refused = run.out_of_memory and (used.out_of_memory or run.out_of_memory)
    return replace(run, peak_bytes=peak, out_of_memory=refused)


def _at_peak(notes: Notes) -> list[tuple[int, Held]]:
    """Returns the tensors of the model, and those that the run held at its peak, by number."""
    found: list[tuple[int, Held]] = []
    if (build := notes.stages.get("build")) is not None and build.tensors is not None:
        found += zip(build.tensors.at_end, build.left, strict=True)
    if (run := notes.stages.get("run")) is not None and run.tensors is not None:
        found += zip(run.tensors.at_peak, run.held, strict=True)
    return found


def model(
    source: Any,
    *,
    inputs: Sequence[str] = (),
    backend: str = "simulated",
    primed: PrimedBackend | None = None,
    **options: Any,
) -> ModelMemory:
    """Returns the memory of a model, a module or a function that makes one, by module and term.

    ``inputs`` are written ``"input_ids=long[B,N]<vocab"``; keywords with a number, ``B=1, N=2048``,
    are sizes, and the others those of :class:`Recipe`: ``train="adamw"``, ``dtype="bfloat16"``.

    Raises:
        BackendUnavailable: the backend cannot measure here.
        BudgetError: an option is unknown, or the model does not run.
    """
    run = ModelRun(source, recipe_of(inputs, options), primed or open_primed(backend))
    return run.memory()


def recipe_of(inputs: Sequence[str], options: Mapping[str, Any]) -> Recipe:
    """Returns the recipe of a call's keywords: those of one letter, and unknown numbers, are sizes.

    Raises:
        BudgetError: a keyword is neither.
    """
    known = {name: value for name, value in options.items() if name in _OPTIONS}
    sizes = {name: value for name, value in options.items() if name not in _OPTIONS}
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BudgetError(
                f"model has no option {name}={shown(value)}; it takes {', '.join(_OPTIONS)}, and"
                f" sizes such as N=2048{did_you_mean(name, _OPTIONS)}"
            )
    return Recipe(inputs=parse_inputs(inputs), sizes=sizes, **known)


_OPTIONS = (
    *("train", "dtype", "autocast", "checkpoint", "accumulate", "new_tokens", "sdpa", "loss"),
)


def unlimited(profile: DeviceProfile, *, scratch: bool = True) -> PrimedBackend:
    """Returns a simulated device with unlimited memory, with or without its kernels' scratch."""
    from ..backends.simulated import Simulated, plan, program_only

    limitless = replace(profile, memory_bytes=1 << 70)  # more than any program asks for
    device = Simulated(limitless, plan if scratch else program_only)
    return PrimedBackend(device, device.prime())


def capacity_of(backend: BackendProtocol) -> int:
    """Returns the memory of the device that a backend stands for, in bytes; 0: not known."""
    profile = getattr(backend, "profile", None)
    if isinstance(profile, DeviceProfile):
        return profile.memory_bytes
    running = present()
    return running.profile.memory_bytes if running is not None else 0
