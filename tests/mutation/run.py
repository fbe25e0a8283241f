"""Changes the deciding modules, one small change at a time: ``python tests/mutation/run.py``.

The tests of a module are collected once; each change then runs them in a fork, up to the first that
fails. A change that no test notices is a survivor. Those of ``survivors.txt`` are explained there;
any other is printed, and ends the command with 1.
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
KNOWN = Path(__file__).with_name("survivors.txt")
ENTRIES = ("tests/baselines/test_entries.py", "tests/baselines/test_updates.py")
GROWTH = ("tests/budgets/test_growth_fit.py", "tests/budgets/test_growth_judgement.py")
LIMITS = (
    "tests/budgets/test_budget.py",
    "tests/budgets/test_formula_and_contract.py",
    "tests/budgets/test_memory_model.py",
)
#: The modules that decide, and the tests that must notice.
MODULES = {
    "budgets/verdict": ("tests/budgets/test_verdict.py",),
    "budgets/tolerance": ("tests/budgets/test_tolerance.py", "tests/budgets/test_verdict.py"),
    "budgets/growth_contract": ("tests/budgets/test_growth_contract.py",),
    "budgets/growth_fit": (*GROWTH, "tests/budgets/test_world_growth.py"),
    "budgets/growth_judgement": GROWTH,
    "budgets/growth_over_formula": (
        "tests/budgets/test_growth_over_formula.py",
        "tests/plugin/test_growth_jointly.py",
    ),
    "budgets/formula_and_contract": ("tests/budgets/test_formula_and_contract.py",),
    "budgets/limit": LIMITS,
    "budgets/parsing": LIMITS,
    "api/conclusion": ("tests/api/test_conclusion.py",),
    "baselines/entries": ENTRIES,
    "formulas/exact_arithmetic": (
        "tests/formulas/test_exact_arithmetic.py",
        "tests/formulas/test_formula.py",
    ),
    "formulas/formula": ("tests/formulas/test_formula.py",),
    "formulas/interpolation": (
        "tests/formulas/test_interpolation.py",
        "tests/formulas/test_multivariate_fit.py",
        "tests/budgets/test_growth_fit.py",
        "tests/budgets/test_world_growth.py",
    ),
    "formulas/polynomial": ("tests/formulas/test_polynomial.py",),
    "formulas/syntax_tree": (
        "tests/formulas/test_formula.py",
        "tests/formulas/test_syntax_tree.py",
    ),
}
#: In the place of the index of the test that failed.
PASSED = -1
#: The exit status of a process whose module cannot be changed.
NOT_APPLIED = 3
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")


class Changing:
    """Runs the collected tests once for each change of a module, in the place of pytest's loop."""

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._limits: dict[pytest.Item, float] = {}
        self.count = 0
        self.survivors: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Has Hypothesis try the same examples each time, and not look for smaller ones."""
        # Imported here, because pytest rewrites it before its first import.
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutation",
            phases=(Phase.explicit, Phase.generate),
            max_examples=25,
            database=None,
            deadline=None,
            suppress_health_check=[*HealthCheck],
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fills ``count`` and ``survivors``."""
        path = ROOT / "pytest_attnmem" / f"{self._name}.py"
        source = path.read_text(encoding="utf-8").splitlines()
        items = session.items
        started = time.monotonic()
        # Twice: the first says how long each takes, and the second runs the quick ones first.
        self._limits = self._unchanged(items)
        items.sort(key=self._limits.__getitem__)
        self._unchanged(items)
        self._seconds = max(self._seconds, 10 * (time.monotonic() - started))
        for mutant in mutants(path):
            self.count += 1
            failed, _ = self._run(items, mutant)
            if failed == PASSED:
                self.survivors.append(key(self._name, mutant, source))
            elif failed is not None:
                items.insert(0, items.pop(failed))  # it likely notices the next one too
        self._unchanged(items)
        return True

    def _unchanged(self, items: list[pytest.Item]) -> dict[pytest.Item, float]:
        """Runs the tests without a change; returns how many seconds of a core each may take."""
        failed, seconds = self._run(items, None)
        if failed is None or failed != PASSED:
            which = "or end their process" if failed is None else f": {items[failed].nodeid}"
            raise pytest.UsageError(f"the tests of {self._name} fail without a change{which}")
        return {item: 1 + 10 * taken for item, taken in zip(items, seconds, strict=True)}

    def _run(
        self, items: list[pytest.Item], mutant: Mutant | None
    ) -> tuple[int | None, list[float]]:
        """Runs the tests in a fork, up to the first that fails.

        Returns its index, ``PASSED`` if none fails, or ``None`` if one ends the process or takes
        too long; and the seconds of a core that each took.
        """
        results, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                os.close(results)
                if mutant is not None:
                    name = f"pytest_attnmem.{self._name.replace('/', '.')}"
                    try:
                        mutant.apply(importlib.import_module(name))
                    except BaseException:
                        os._exit(NOT_APPLIED)
                with open(writing, "w") as pipe:
                    json.dump(outcome(items, self._limits), pipe)
            finally:
                os._exit(0)
        os.close(writing)
        # Without a change they may take long on a busy machine.
        until = time.monotonic() + (self._seconds if mutant is not None else 3600)
        with open(results) as pipe:
            if not select.select([pipe], [], [], until - time.monotonic())[0]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
            text = pipe.read()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == NOT_APPLIED:
            raise pytest.UsageError(f"{self._name} cannot be changed: {mutant}")
        failed, seconds = json.loads(text) if text else (None, [])
        return failed, seconds


def outcome(items: list[pytest.Item], limits: dict[pytest.Item, float]) -> tuple[int, list[float]]:
    """Runs the tests up to the first that fails; returns its index and the seconds each took.

    A test that takes more seconds of a core than its limit ends the process, so that an endless
    loop is noticed too, and soon.
    """
    memory = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + (4 << 30), memory[1]))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    session = items[0].session
    session.config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115
    seconds: list[float] = []
    for place, (item, after) in enumerate(zip(items, [*items[1:], None], strict=True)):
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limits.get(item, 0))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        seconds.append(time.process_time() - started)
        if session.testsfailed:
            return place, seconds
    return PASSED, seconds


def address_space() -> int:
    """Returns the bytes of the process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def key(name: str, mutant: Mutant, source: list[str]) -> str:
    """Returns the change as a line of ``survivors.txt``, which lines added above do not change."""
    return f"{name}: {source[mutant.line - 1].strip()}: {mutant.change}"


def known() -> set[str]:
    """Returns the survivors that are explained: the lines that are neither indented nor empty."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.is_file() else []
    return {line for line in lines if line and not line.startswith((" ", "#"))}


def main() -> int:
    """Runs one module, or each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", help=f"default: all of {', '.join(MODULES)}")
    parser.add_argument("--seconds", type=float, default=20, help="the least limit of one change")
    options = parser.parse_args()
    names = options.modules or [*MODULES]
    os.chdir(ROOT)
    if len(names) > 1:
        command = f"{sys.executable} {__file__} --seconds {options.seconds}"
        codes = [os.waitstatus_to_exitcode(os.system(f"{command} {name}")) for name in names]
        return max(codes)
    changing = Changing(names[0], options.seconds)
    if code := pytest.main([*MODULES[names[0]], *OPTIONS, "--no-header"], plugins=[changing]):
        return int(code)
    fresh = [line for line in changing.survivors if line not in known()]
    print(f"{names[0]}: {changing.count} changes, {len(changing.survivors)} survive,", end=" ")
    print(f"{len(fresh)} unexplained")
    for line in fresh:
        print(f"  {line}")
    return int(bool(fresh))


if __name__ == "__main__":
    sys.exit(main())
