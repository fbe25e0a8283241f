"""Changes the deciding modules, one small change at a time: ``python tests/mutation/run.py``.

The tests of a module are collected once; each change then runs them in a fork, up to the first that
fails. A change that no test notices is a survivor. Those of ``survivors.txt`` are explained there;
any other is printed, and ends the command with 1.
"""

import argparse
import contextlib
import importlib
import os
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
#: The modules that decide, and the tests that must notice.
MODULES = {
    "budgets/verdict": ("tests/budgets",),
    "budgets/tolerance": ("tests/budgets/test_tolerance.py", "tests/budgets/test_verdict.py"),
    "budgets/growth_contract": ("tests/budgets",),
    "budgets/growth_fit": ("tests/budgets",),
    "budgets/growth_judgement": ("tests/budgets",),
    "budgets/growth_over_formula": ("tests/budgets", "tests/plugin/test_growth_jointly.py"),
    "budgets/formula_and_contract": ("tests/budgets",),
    "baselines/entries": ENTRIES,
    "baselines/updates": ENTRIES,
    "formulas/exact_arithmetic": ("tests/formulas",),
    "formulas/formula": ("tests/formulas",),
    "formulas/interpolation": ("tests/formulas", "tests/budgets"),
    "formulas/multivariate_fit": ("tests/formulas", "tests/budgets"),
    "formulas/polynomial": ("tests/formulas", "tests/budgets"),
    "formulas/syntax_tree": ("tests/formulas",),
}
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")


class Changing:
    """Runs the collected tests once for each change of a module, in the place of pytest's loop."""

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self.count = 0
        self.survivors: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fills ``count`` and ``survivors``."""
        path = ROOT / "pytest_attnmem" / f"{self._name}.py"
        source = path.read_text(encoding="utf-8").splitlines()
        started = time.monotonic()
        if not self._survives(session, None):
            raise pytest.UsageError(f"the tests of {self._name} fail without a change")
        self._seconds = max(self._seconds, 10 * (time.monotonic() - started))
        for mutant in mutants(path):
            self.count += 1
            if self._survives(session, mutant):
                self.survivors.append(key(self._name, mutant, source))
        return True

    def _survives(self, session: pytest.Session, mutant: Mutant | None) -> bool:
        """Runs the tests in a fork; returns True if none fails."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setsid()
                if mutant is not None:
                    name = f"pytest_attnmem.{self._name.replace('/', '.')}"
                    mutant.apply(importlib.import_module(name))
                code = int(not passes(session))
            finally:
                os._exit(code)
        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # an endless loop is noticed too
        os.waitpid(child, 0)
        return False


def passes(session: pytest.Session) -> bool:
    """Runs the tests up to the first that fails."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    session.config.get_terminal_writer()._file = open(os.devnull, "w")  # noqa: SIM115
    for item, after in zip(session.items, [*session.items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return False
    return True


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
