"""Contracts on small bodies whose growth is known by arithmetic: the functions of ``bodies``."""

import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import inner_session

from pytest_attnmem.measurement.garbage import unfreeze_all

MODULES = ("models", "ranks", "sequences")


@dataclass(frozen=True)
class Case:
    """A contract on a body, and whether the body keeps it."""

    body: str
    contract: str
    holds: bool

    @property
    def right(self) -> str:
        return "within" if self.holds else "over"

    @property
    def wrong(self) -> str:
        return "over" if self.holds else "within"


@dataclass(frozen=True)
class Body:
    """A function of sizes, whose growth its docstring states."""

    run: Callable[..., object]
    holds: tuple[str, ...]
    breaks: tuple[str, ...]
    sizes: dict[str, int]
    ranks: int | None = None
    fixed: str | tuple[str, ...] | None = None


def grows(**facts: Any) -> Callable[[Callable[..., object]], Body]:
    """Makes a body of a function: the contracts that it ``holds`` and ``breaks``, its ``sizes``."""
    return lambda function: Body(function, **facts)


@cache
def bodies() -> dict[str, Body]:
    """Name → body, in the order of their names."""
    modules = (importlib.import_module(f"growth.bodies.{name}") for name in MODULES)
    every = {n: x for module in modules for n, x in vars(module).items() if isinstance(x, Body)}
    return dict(sorted(every.items()))


def cases(backend: str) -> list[Case]:
    """The contracts of the bodies that run on a backend: ranks need a device."""
    return [
        Case(name, contract, holds)
        for name, body in bodies().items()
        if backend != "cpu" or body.ranks is None
        for holds, contracts in ((True, body.holds), (False, body.breaks))
        for contract in contracts
    ]


def run(backend: str, chosen: list[Case] | None = None) -> dict[Case, tuple[str, str]]:
    """Outcome and reason of each contract, from one session of pytest in this process."""
    chosen = cases(backend) if chosen is None else chosen
    unfreeze_all()  # or the session leaves freezing to those before it, and visits all their tests
    with tempfile.TemporaryDirectory(prefix="growth-") as made:
        folder = Path(made).resolve()
        (folder / "pytest.ini").write_text("[pytest]\n")
        tests = [_test(number, case) for number, case in enumerate(chosen)]
        (folder / "test_contracts.py").write_text("\n".join([_head(), *tests]))
        options = ("-q", "--tb=no", "-pno:randomly", "--attnmem-explain=off")
        results = inner_session.rows(
            folder, "test_contracts.py", f"--attnmem-backend={backend}", *options
        )
    found = {}
    for row in results:
        number = int(row["nodeid"].partition("::test_")[2].partition("[")[0])
        found[chosen[number]] = min(
            found.get(chosen[number], ("within", "")), (row["outcome"], row["reason"]), key=_worst
        )
    return found


def _worst(ending: tuple[str, str]) -> int:
    """The order of a case's ranks: one that is over counts for all, then one without an answer."""
    return ("over", "not enforced", "within").index(ending[0])


def _head() -> str:
    return "import pytest\nfrom growth.contracts import bodies\n"


def _test(number: int, case: Case) -> str:
    body = bodies()[case.body]
    options = {"ranks": body.ranks, "fixed": body.fixed}
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    names = ", ".join(body.sizes)
    called = f"bodies()[{case.body!r}].run(attnmem.device, {names})"
    return (
        f"@pytest.mark.memory_budget({case.contract!r}{given})\n"
        f"@pytest.mark.parametrize({tuple(body.sizes)}, [{tuple(body.sizes.values())}])\n"
        f"def test_{number}(attnmem, {names}):\n    {called}\n"
    )
