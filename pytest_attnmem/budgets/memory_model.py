"""Memory models: the tensors alive in each phase of an algorithm, as formulas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..errors import BudgetError
from ..formulas.formula import Formula, parse_formula
from ..symbols.attention_shape import AttentionShape
from ..units import shown


@dataclass(frozen=True, slots=True)
class Phase:
    """A line of an algorithm, and the tensors alive while it runs."""

    name: str
    alive: Mapping[str, str]
    """Tensor → the formula of its bytes."""
    scratch: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Device kind (``cpu``, ``cuda``, ``sm90``) → the scratch of its kernels, by name."""
    _formulas: Mapping[str, Formula] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        texts = {
            *self.alive.values(),
            *(t for terms in self.scratch.values() for t in terms.values()),
        }
        object.__setattr__(self, "_formulas", {text: parse_formula(text) for text in texts})
        for kind, terms in self.scratch.items():
            if both := sorted(self.alive.keys() & terms.keys()):
                raise BudgetError(
                    f"phase {shown(self.name)} has {shown(both[0])} as a tensor and as scratch on"
                    f" {kind}"
                )

    def terms(self, kinds: Iterable[str] = ()) -> dict[str, Formula]:
        """Returns the formulas of the tensors, then of the scratch on a device of ``kinds``.

        The closest kind comes first.
        """
        terms = dict(self.alive)
        for kind in reversed(tuple(kinds)):
            terms.update(self.scratch.get(kind, {}))
        return {name: self._formulas[text] for name, text in terms.items()}

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the formulas read, on any device."""
        return frozenset().union(*(formula.symbols for formula in self._formulas.values()))


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """The live sets of an algorithm, phase by phase; its peak is the largest of their sums.

    A model is a budget: ``@pytest.mark.memory_budget(standard.MODEL.forward)``.
    """

    name: str
    phases: tuple[Phase, ...]
    defaults: Mapping[str, int] = field(default_factory=dict)
    """Symbols that a test may leave out, such as ``causal=0``."""

    def __repr__(self) -> str:
        return f"<MemoryModel: {self.name}, {len(self.phases)} phases>"

    def __post_init__(self) -> None:
        names = [phase.name for phase in self.phases]
        if not names:
            raise BudgetError(f"memory model {shown(self.name)} has no phase")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BudgetError(
                f"memory model {shown(self.name)} has two phases named {shown(twice[0])}"
            )

    def live(self, shape: AttentionShape, kinds: Iterable[str] = ()) -> dict[str, dict[str, int]]:
        """Returns phase → tensor → bytes, for the sizes in ``shape`` on a device of ``kinds``.

        Raises:
            BudgetError: ``shape`` lacks a symbol of the model.
        """
        kinds = tuple(kinds)
        known = AttentionShape({**self.defaults, **shape.symbols}, shape.conflicts)
        return {
            phase.name: {name: evaluate(term, known) for name, term in phase.terms(kinds).items()}
            for phase in self.phases
        }

    def peak(self, shape: AttentionShape, kinds: Iterable[str] = ()) -> int:
        """Returns the bytes of the largest phase; without ``kinds``, only the program's tensors."""
        return max(sum(alive.values()) for alive in self.live(shape, kinds).values())

    def high_water(self, shape: AttentionShape, kinds: Iterable[str] = ()) -> str:
        """Returns the name of the first largest phase."""
        live = self.live(shape, kinds)
        return max(live, key=lambda phase: sum(live[phase].values()))

    def has_scratch(self, kinds: Iterable[str]) -> bool:
        """Returns True if the model counts the scratch of kernels on a device of ``kinds``."""
        return any(phase.scratch.get(kind) for kind in kinds for phase in self.phases)

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the formulas read, on any device."""
        return frozenset().union(*(phase.symbols for phase in self.phases))


@dataclass(frozen=True, slots=True)
class KernelModel:
    """The models of a kernel: its forward under ``no_grad``, and forward plus backward."""

    forward: MemoryModel
    training: MemoryModel


def evaluate(formula: Formula, shape: AttentionShape) -> int:
    """Returns the bytes of a formula for ``shape``, and reads only the symbols of the formula.

    Raises:
        BudgetError: a symbol has no value, or two values.
        FormulaError: the result is not a number of bytes.
    """
    return formula.evaluate(shape.read(sorted(formula.symbols)))
