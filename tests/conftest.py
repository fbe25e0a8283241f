"""The start of every test: imports, fixtures and the state of the garbage collector."""

import functools
import gc
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.pytester import SysModulesSnapshot

import pytest_attnmem
from pytest_attnmem.measurement import project
from pytest_attnmem.measurement.garbage import freeze_present
from pytest_attnmem.measurement.measurement import Measurement

sys.path.insert(0, str(Path(__file__).parent))  # for suites.py

from suites import Suite

Case = TypeVar("Case")

#: Read when torch is loaded, below. Threads that wait for work would spin, and take from the other
#: workers the cores that they need: six times the time where there are as many workers as cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Hypothesis warns at its import if it finds no reference to the module ``random``: it sees none of
# frozen objects, and all objects are frozen below.
hypothesis = importlib.import_module("hypothesis")
# A test has all the time that a busy machine needs.
hypothesis.settings.register_profile("untimed", hypothesis.settings.default, deadline=None)
hypothesis.settings.register_profile("few", max_examples=20, deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--cases``, by which ``make test`` runs each kind of test, and not each case."""
    parser.addoption(
        "--cases",
        type=int,
        metavar="N",
        help="run at most N cases of each test, spread evenly, no test marked thorough, and few"
        " examples of each property",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves cases out; a test that is not thorough keeps its first case and its last."""
    most = config.getoption("--cases")
    if most is None:
        return
    quick = (item for item in items if item.get_closest_marker("thorough") is None)
    kept = {*_few(quick, most, lambda item: item.nodeid.partition("[")[0])}
    # The terminal counts them, and would keep each that is left out, for collections to visit.
    config.hook.pytest_deselected(items=items[:1] * (len(items) - len(kept)))
    items[:] = [item for item in items if item in kept]


def _few(cases: Iterable[Case], most: int, kind: Callable[[Case], object]) -> list[Case]:
    kinds: dict[object, list[Case]] = {}
    for case in cases:
        kinds.setdefault(kind(case), []).append(case)
    return [case for every in kinds.values() for case in _spread(every, most)]


def _spread(cases: list[Case], most: int) -> list[Case]:
    if len(cases) <= most:
        return cases
    return [cases[at * (len(cases) - 1) // max(most - 1, 1)] for at in range(most)]


@pytest.fixture(scope="session")
def few(pytestconfig: pytest.Config) -> Callable[..., list[Any]]:
    """Leaves rows of a recording out: ``few(rows, kind)`` has at most ``--cases`` of each kind."""
    most = pytestconfig.getoption("--cases")
    return lambda rows, kind: [*rows] if most is None else _few(rows, most, kind)


def pytest_configure(config: pytest.Config) -> None:
    """Takes few examples with ``--cases``, and imports all modules unless others run the tests.

    Pytester restores ``sys.modules`` after each suite, and a later import would make a module of
    ours a second time.
    """
    if config.getoption("--cases") is not None:
        hypothesis.settings.load_profile("few")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
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


class _ReadOnce:
    """A package whose metadata are read and parsed on first use only."""

    def __init__(self, package: importlib.metadata.Distribution) -> None:
        self._package = package

    def __getattr__(self, name: str) -> object:
        vars(self)[name] = getattr(self._package, name)
        return vars(self)[name]


@pytest.fixture(scope="session", autouse=True)
def _packages_are_read_once() -> Iterator[None]:
    """Each session of pytest reads the metadata of all packages; suites install none."""
    packages = [_ReadOnce(package) for package in importlib.metadata.distributions()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata, "distributions", lambda: packages)
        yield


@pytest.fixture(autouse=True)
def _one_terminal_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest folds lines by the terminal's width, and repeats whole messages where CI is set."""
    for name in ("CI", "BUILD_NUMBER", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


class _UntilClosed:
    """A connection whose ``recv`` raises once the other side has closed it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def recv(self, size: int) -> bytes:
        received = self._connection.recv(size)
        if not received:
            raise ConnectionError("closed")
        return received

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def __enter__(self) -> "_UntilClosed":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@pytest.fixture(scope="session", autouse=True)
def _threads_end_with_their_workers() -> Iterator[None]:
    """A thread of pytest-rerunfailures 16.1 reads for ever from a worker that has ended.

    Suites run in this process: the thread would run beside all later measurements.
    """
    if importlib.util.find_spec("pytest_rerunfailures") is None:
        yield
        return
    server = importlib.import_module("pytest_rerunfailures").ServerStatusDB
    plain = server.run_connection

    def run_connection(self: object, connection: socket.socket) -> None:
        with _UntilClosed(connection) as ending:
            plain(self, ending)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "run_connection", run_connection)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collects tests without garbage collections, which would visit all that were collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@functools.cache
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


@pytest.fixture(autouse=True)
def _quick_collections() -> None:
    """Freeze what earlier tests left: collecting it before each window takes 0.1 s otherwise."""
    freeze_present()


@pytest.fixture
def project_root() -> Iterator[None]:
    """Take ``/srv/repo`` for the folder of the project."""
    before = project._PROJECT.root
    project.set_root(Path("/srv/repo"))
    yield
    project.set_root(Path(before) if before else None)


@pytest.fixture(scope="module")
def simulation_imported():
    """Import what PyTorch needs for fakes before pytester notes the modules that it keeps."""
    importlib.import_module("pytest_attnmem.backends.registry").open_backend("simulated")


@pytest.fixture
def pytester(pytester, monkeypatch):
    """Without a loop scope, pytest-asyncio warns; a file that sets it is refused on pytest 8.0."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-o asyncio_default_fixture_loop_scope=function")
    return pytester


@pytest.fixture
def suite(pytester, monkeypatch):
    """A suite on the CPU."""
    monkeypatch.setenv("COLUMNS", "200")
    # A suite says itself if it needs pytest-asyncio.
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Suite(pytester)


@pytest.fixture
def scripted(suite):
    """A suite on a device whose numbers its tests dictate: ``memory.take``, ``memory.use``."""
    shutil.copy(Path(__file__).parent / "plugin" / "scripted.py", suite.path)
    suite.write("from scripted import pytest_attnmem_register_backends\n", "conftest.py")
    suite.ini["attnmem_backend"] = "scripted"
    suite.head = "\nimport pytest\nfrom scripted import memory\n"
    return suite
