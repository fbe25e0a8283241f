"""Contracts on small bodies whose growth is known by arithmetic; each file of ``bodies`` is one."""

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from pytest_attnmem.measurement.garbage import unfreeze_all

BODIES = Path(__file__).parent / "bodies"


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


@cache
def bodies() -> dict[str, ModuleType]:
    """Name → body, in the order of their files."""
    return {path.stem: _loaded(path) for path in sorted(BODIES.glob("*.py"))}


def cases(backend: str) -> list[Case]:
    """The contracts of the bodies that run on a backend: ranks need a device."""
    return [
        Case(name, contract, holds)
        for name, body in bodies().items()
        if backend != "cpu" or not hasattr(body, "RANKS")
        for holds, contracts in ((True, body.HOLDS), (False, body.BREAKS))
        for contract in contracts
    ]


def run(backend: str, chosen: list[Case] | None = None) -> dict[Case, tuple[str, str]]:
    """Outcome and reason of each contract, from one session of pytest in this process."""
    chosen = cases(backend) if chosen is None else chosen
    unfreeze_all()  # or the session leaves freezing to those before it, and visits all their tests
    printed = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="growth-") as made, pytest.MonkeyPatch.context() as own:
        folder = Path(made).resolve()
        (folder / "pytest.ini").write_text("[pytest]\n")
        tests = [_test(number, case) for number, case in enumerate(chosen)]
        (folder / "test_contracts.py").write_text("\n".join([_head(), *tests]))
        own.chdir(folder)
        with contextlib.redirect_stdout(printed):
            pytest.main(
                [
                    "test_contracts.py",
                    *("-s", "-q", "--tb=no", "--import-mode=importlib"),
                    *("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:randomly"),
                    *("-p", "no:unraisableexception", "-p", "no:asyncio", "-p", "no:rerunfailures"),
                    f"--attnmem-backend={backend}",
                    "--attnmem-explain=off",
                    "--attnmem-json=rows.json",
                ]
            )
        sys.modules.pop("test_contracts", None)  # the next backend has a file of this name
        rows = folder / "rows.json"
        if not rows.is_file():
            raise RuntimeError(printed.getvalue())
        results = json.loads(rows.read_text("utf-8"))["results"]
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
    return f"import sys\nimport pytest\nsys.path.insert(0, {str(BODIES)!r})\nimport importlib\n"


def _test(number: int, case: Case) -> str:
    body = bodies()[case.body]
    options = {"ranks": getattr(body, "RANKS", None), "fixed": getattr(body, "FIXED", None)}
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    names = ", ".join(body.SIZES)
    called = f"importlib.import_module({case.body!r}).body(attnmem.device, {names})"
    return (
        f"@pytest.mark.memory_budget({case.contract!r}{given})\n"
        f"@pytest.mark.parametrize({tuple(body.SIZES)}, [{tuple(body.SIZES.values())}])\n"
        f"def test_{number}(attnmem, {names}):\n    {called}\n"
    )


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
