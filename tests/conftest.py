"""What tests of several modules start from."""

import gc
import importlib
import pkgutil
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.pytester import SysModulesSnapshot

import pytest_attnmem
from pytest_attnmem.measurement.measurement import Measurement

sys.path.insert(0, str(Path(__file__).parent))  # for suites.py

from suites import Suite

#: Loaded once, or each suite would load them anew: pytester restores ``sys.modules`` after it.
LAZY = (
    "plugin.call_phase",
    "measurement.environment",
    "report.json",
    "report.terminal",
    "backends.cpu",
)

# Of our own modules there should not be two of a kind; so all are imported before the first suite.
for module in pkgutil.walk_packages(pytest_attnmem.__path__, "pytest_attnmem."):
    importlib.import_module(module.name)


@pytest.fixture(scope="session", autouse=True)
def _libraries_stay_imported() -> Iterator[None]:
    """Pytester takes out of sys.modules what a suite imported; torch survives no second import."""
    plain = SysModulesSnapshot.__init__

    def preserving(self: SysModulesSnapshot, preserve: Callable[[str], bool]) -> None:
        plain(self, lambda name: preserve(name) or _is_library(name))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SysModulesSnapshot, "__init__", preserving)
        yield


@pytest.fixture(autouse=True)
def _one_terminal_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest folds lines by the terminal's width, and repeats whole messages where CI is set."""
    for name in ("CI", "BUILD_NUMBER", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def _is_library(name: str) -> bool:
    return "site-packages" in (getattr(sys.modules[name], "__file__", None) or "")


@pytest.fixture(scope="session")
def seen() -> Measurement:
    """A measurement of 1 KiB with nothing special about it; tests replace what they look at."""
    return Measurement(
        backend="cpu",
        device="cpu",
        peak_bytes=1024,
        allocated_bytes=1024,
        reserved_bytes=None,
        retained_bytes=256,
        allocations=3,
        kinds=("cpu",),
    )


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """For tests that open many windows: each collects garbage, at 70 ms with torch imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def quick_collections():
    """Freeze what pytest and torch made, so that collecting before each window costs little."""
    for name in LAZY:
        import_module(f"pytest_attnmem.{name}")
    import_module("tabulate")
    import_module("pytest_attnmem.backends.tracing.dispatch_tracker").Tracker()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def simulation_imported():
    """Import what PyTorch needs for fakes before pytester notes the modules that it keeps."""
    import_module("pytest_attnmem.backends.registry").open_backend("simulated")


@pytest.fixture
def suite(pytester, monkeypatch):
    """A suite on the CPU."""
    monkeypatch.setenv("COLUMNS", "200")
    return Suite(pytester, {"asyncio_default_fixture_loop_scope": "function"})


@pytest.fixture
def scripted(suite):
    """A suite on a device whose numbers its tests dictate: ``memory.take``, ``memory.use``."""
    shutil.copy(Path(__file__).parent / "plugin" / "scripted.py", suite.path)
    suite.write("from scripted import pytest_attnmem_register_backends\n", "conftest.py")
    suite.ini["attnmem_backend"] = "scripted"
    return suite
