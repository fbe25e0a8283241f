"""A pair: a small program with a good and a bad variant of equal values, and its gates."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PAIRS = Path(__file__).parent / "pairs"

#: Ends a statement that makes memory that only the bad variant holds. Outside the program, the
#: program's name follows it.
MARK = "# guilty"


@dataclass(frozen=True)
class Pair:
    """A program whose argument ``bad`` asks for the regression, and its budgets."""

    program: Callable[..., Any]
    kind: int
    """The mechanism, as numbered in the survey of regressions that were shipped."""
    case: str
    """The issue that users opened; empty where the pattern has none."""
    mechanism: str
    operator: str
    """The operator that makes the memory, as failures name it."""
    limit: str
    """The formula that the good variant keeps."""
    contract: str
    """The growth contract that it keeps; empty where the regression is a constant factor."""
    saving: str
    """The least that the good variant saves over the bad one; empty where nothing compares them."""
    retained: str
    """The exact bytes that outlive the body; empty where no budget holds them."""
    metric: str
    exact: bool
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        return self.program.__name__

    @property
    def arguments(self) -> list[str]:
        """The arguments of the program but for ``bad``: fixtures and sizes."""
        return [name for name in inspect.signature(self.program).parameters if name != "bad"]

    @property
    def guilty(self) -> frozenset[str]:
        """The marked lines as failures name them: ``masks.py:17``."""
        path = Path(inspect.getfile(self.program))
        body, start = inspect.getsourcelines(self.program)
        return frozenset(
            f"{path.name}:{at}"
            for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)
            if line.endswith(f"{MARK}: {self.name}")
            or (line.endswith(MARK) and start <= at < start + len(body))
        )

    @property
    def gates(self) -> dict[str, str]:
        """Gate → the arguments of its marker; ``compare`` holds its test by itself."""
        metric = "" if self.metric == "peak" else f"metric={self.metric!r}"
        found = {"formula": f"{self.limit!r}, {metric}"}
        if self.exact:
            found["formula"] = f"{self.limit!r}, exact=True"
        if self.contract:
            found["contract"] = f"{self.contract!r}, {metric}"
        if self.retained:
            found["retained"] = f"{self.retained!r}, metric='retained', exact=True"
        if self.saving:
            found["compare"] = ""
        return {**found, "baseline": metric}

    @property
    def caught(self) -> list[str]:
        """The gates that the bad variant fails; an improvement does not fail a baseline."""
        return [gate for gate in self.gates if not (self.exact and gate == "baseline")]


def pair(
    kind: int,
    case: str,
    mechanism: str,
    *,
    operator: str,
    limit: str,
    contract: str = "",
    saving: str = "",
    retained: str = "",
    metric: str = "peak",
    exact: bool = False,
    **sizes: int,
) -> Callable[[Callable[..., Any]], Pair]:
    """Declare a program as a pair; ``sizes`` are its arguments of the same names."""

    def declared(program: Callable[..., Any]) -> Pair:
        budgets = (limit, contract, saving, retained, metric, exact)
        return Pair(program, kind, case, mechanism, operator, *budgets, sizes)

    return declared


@cache
def pairs() -> dict[str, Pair]:
    """Name → pair, of all files, in their order."""
    found: dict[str, Pair] = {}
    for path in sorted(PAIRS.glob("*.py")):
        module = importlib.import_module(f"zoo.pairs.{path.stem}")
        found |= {one.name: one for one in vars(module).values() if isinstance(one, Pair)}
    return found
