"""A budget as a test writes it (``BudgetSpec``), and in bytes (``Budget``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from ..symbols.attention_shape import AttentionShape
from .formula_and_contract import FormulaAndContract
from .growth_contract import Contract
from .limit import Limit
from .tolerance import NONE, Tolerance


class Obstacle(Enum):
    """What kept a budget from being enforced; a reason tells the particulars of one test."""

    NOTHING_ALLOCATED = (
        "make the tensors in the test, on the measured device (device=attnmem.device); a test that"
        " should allocate nothing has the limit 0"
    )
    NOT_COUNTED = (
        "do what the reason says, or name a backend that can count it: backend='null' in the"
        " marker, or --attnmem-backend"
    )
    METRIC_NOT_COUNTED = (
        "hold metric='peak' or 'retained', which each backend counts, or name a backend that counts"
        " this one: cuda, null or simulated"
    )
    FIRST_IMPORT = "import it before the measurement: warmup=1 in the marker, or in a fixture"
    GROWTH_NOT_KNOWN = (
        "do what the reason says: what varies must be a whole-number argument of the test, and each"
        " run must begin alike (warmup=1); or write a formula"
    )
    VALUE_NOT_KNOWN = (
        "leave out of the test what nobody can know here, or name a backend that knows it:"
        " --attnmem-backend cpu, null or cuda"
    )
    NOT_COMPARED = "let both be measured: the reason says which was not, and why"
    NOT_REPEATED = (
        "give each run of the test a state of its own: the reason names what outlives a run, or why"
        " the test does not run again"
    )
    REGION_LEFT = "catch the error inside the region, so that the region comes to its end"
    REGION_OPEN = "end the 'with' of the region before the test ends"
    NOT_FINISHED = "let the test come to its end", True
    """The test was skipped, failed or was stopped; pytest says so itself."""
    NO_ENTRY = "record one: --attnmem-update new", True
    NO_LIMIT_HERE = "give this device a limit, or write one for each device as 'default'", True
    NO_DEVICE = (
        "run where the device is, or name one that this machine can stand for:"
        " --attnmem-backend simulated:H100",
        True,
    )

    def __init__(self, remedy: str, excused: bool = False) -> None:
        self.remedy = remedy
        """What to do."""
        self.excused = excused
        """True if the session could not have enforced the budget."""


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """A budget as a test writes it."""

    limits: Mapping[str, Limit]
    """Device kind → limit; a limit for every device has the kind ``default``."""
    metric: str = "peak"
    tolerance: Tolerance = NONE
    exact: bool = False
    backend: str | None = None
    device: str | None = None
    warmup: int = 0
    compiled: bool = False
    """True if compiled code may need no more memory than the same code when it runs eagerly."""
    fixed: frozenset[str] = frozenset()
    """The arguments of the test that a contract does not vary."""
    symbols: Mapping[str, object] = field(default_factory=dict)
    where: object = ""
    """``test_attn.py:12``, or an object that finds this line when it is converted to text."""

    @property
    def text(self) -> str:
        """The limit in the words of the test; empty if the test gave no limit."""
        if [*self.limits] == ["default"]:
            return self.limits["default"].text
        return ", ".join(f"{kind}: {limit.text}" for kind, limit in self.limits.items())

    @property
    def is_promise(self) -> bool:
        """True if the test says itself what it may need."""
        return bool(self.limits) or self.compiled

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The growth contracts among the limits."""
        contracts = (limit.contract for limit in self.limits.values())
        return tuple(contract for contract in contracts if contract is not None)

    @property
    def sums(self) -> bool:
        """True if a limit is a formula and a contract."""
        return any(limit.sum is not None for limit in self.limits.values())

    @property
    def read(self) -> frozenset[str]:
        """The symbols that the limits are known to read."""
        return frozenset().union(*(limit.symbols for limit in self.limits.values()))

    def limit_for(self, kinds: tuple[str, ...]) -> tuple[str, Limit] | None:
        """Returns kind and limit for a device of ``kinds`` (closest first), or None."""
        for kind in (*kinds, "default"):
            if kind in self.limits:
                return kind, self.limits[kind]
        return None


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget in bytes."""

    limit_bytes: int | None
    """None: there is no limit on bytes, for the reason in ``absent`` or because of ``contract``."""
    text: str = ""
    values: Mapping[str, int] = field(default_factory=dict)
    """The symbols that the limit read, with their values."""
    where: object = ""
    metric: str = "peak"
    tolerance: Tolerance = NONE
    exact: bool = False
    absent: str = ""
    obstacle: Obstacle = Obstacle.NO_ENTRY
    """What ``absent`` means for the test."""
    contract: Contract | None = None
    """The allowed growth with sizes, in place of a limit on bytes."""
    sum: FormulaAndContract | None = None
    """The formula that ``contract`` is added to; ``contract`` then bounds the bytes over it."""
    fixed: frozenset[str] = frozenset()
    """The arguments of the test that ``contract`` does not vary."""
    unlimited: bool = False
    """True if the test gave no limit for any device."""


#: The budget of what is only measured.
NO_LIMIT: Final = Budget(None)


def resolve(spec: BudgetSpec, shape: AttentionShape, kinds: tuple[str, ...]) -> Budget:
    """Returns the budget in bytes for ``shape`` on a device of ``kinds`` (closest first).

    A model with the scratch of torch's kernels has no bytes on a torch whose rules are unknown.

    Raises:
        BudgetError: a symbol has no value or two values; a callable does not return bytes.
        FormulaError: the value of the formula is not a number of bytes.
    """
    budget = Budget(
        None,
        spec.text,
        where=spec.where,
        metric=spec.metric,
        tolerance=spec.tolerance,
        exact=spec.exact,
        fixed=spec.fixed,
    )
    chosen = spec.limit_for(kinds)
    if not spec.limits:
        return replace(budget, absent="no limit was given", unlimited=True)
    if chosen is None:
        device = kinds[-1] if kinds else "this device"
        absent = f"no limit for {device}, only for {', '.join(spec.limits)}"
        return replace(budget, text="", absent=absent, obstacle=Obstacle.NO_LIMIT_HERE)
    kind, limit = chosen
    contract = limit.contract
    if contract is not None and limit.sum is None:
        return replace(budget, text=contract.text, contract=contract)
    nbytes, values, absent = limit.resolve(shape, kinds)
    if contract is not None:
        return replace(budget, text=limit.text, values=values, contract=contract, sum=limit.sum)
    if absent:
        return replace(budget, absent=absent, obstacle=Obstacle.NOT_COUNTED)
    text = budget.text if len(spec.limits) == 1 else f"{kind}: {limit.text}"
    return replace(budget, limit_bytes=nbytes, text=text, values=values)
