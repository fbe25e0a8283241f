"""The plugin: pytest's hooks, each a line or two to where the work is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from . import hookspecs
from .errors import AttnMemError
from .fixtures import PLAN, SESSION, attnmem, qkv
from .reporter import Reporter, Worker
from .session import Session
from .settings import FIXTURES, MARKER, add_options, read_settings

if TYPE_CHECKING:
    from collections.abc import Generator

    from .backends import Opener

__all__ = ["attnmem", "qkv"]

#: As the signature of :func:`pytest_attnmem.budget.memory_budget` has it, which is not imported
#: before a test has the marker.
MARKER_LINE = (
    "memory_budget(limit=None, *, metric='peak', tolerance=0, exact=False, backend=None,"
    " device=None, warmup=0, **symbols): hold the test's peak memory to limit: a size, a formula,"
    " a model, a callable or a dict."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, from their table."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks of this plugin."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(trylast=True)  # a conftest may register backends by now
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and see that the options make sense."""
    config.addinivalue_line("markers", MARKER_LINE)
    openers: dict[str, Opener] = {}
    for registered in config.hook.pytest_attnmem_register_backends():
        openers |= registered
    try:
        settings = read_settings(config, openers)
    except AttnMemError as error:
        raise pytest.UsageError(str(error)) from error
    session = config.stash[SESSION] = Session(settings, openers)
    reporter = Worker(config) if hasattr(config, "workerinput") else Reporter(config, session)
    config.pluginmanager.register(reporter, "attnmem-reporter")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Undo what was done to the process."""
    if SESSION in config.stash:
        config.stash[SESSION].collector.thaw()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say so where nothing is enforced."""
    disabled = config.stash[SESSION].settings.disable
    return "attnmem: disabled, budgets are not enforced" if disabled else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Plan what to measure, before fixtures are made and after skips were decided."""
    session = item.config.stash[SESSION]
    if not (
        session.settings.default
        or FIXTURES.intersection(getattr(item, "fixturenames", ()))
        or item.get_closest_marker(MARKER)
    ):
        return
    from .plan import make_plan
    from .rows import Rows

    rows = Rows(item)
    plan, problem = None, ""
    try:
        plan = make_plan(item, session, rows.keep)
    except AttnMemError as error:
        problem = str(error)
    if problem:
        rows.keep_unmeasured(problem)
        pytest.fail(problem, pytrace=False)
    if plan is not None:
        item.stash[PLAN] = plan
        session.collector.settle(item.path)


@pytest.hookimpl(wrapper=True, trylast=True)  # innermost: the body, and nobody's bookkeeping
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the body and judge it."""
    plan = item.stash.get(PLAN, None)
    if plan is None:
        return (yield)
    from .enforce import Enforcement
    from .rows import Rows

    settings = item.config.stash[SESSION].settings
    return (yield from Enforcement(item, plan, Rows(item), settings).run())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Let go of the test's inputs, and of what was frozen where another file's tests are next."""
    try:
        return (yield)
    finally:
        if PLAN in item.stash:
            item.stash[PLAN].memory.exceeded.clear()  # errors, and the frames they hold
            del item.stash[PLAN]
        item.config.stash[SESSION].collector.thaw(unless=nextitem.path if nextitem else None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a row for a marked test that never came to its body."""
    report = yield
    marked = item.get_closest_marker(MARKER) is not None
    disabled = item.config.stash[SESSION].settings.disable
    if call.when == "setup" and call.excinfo is not None and marked and not disabled:
        from .rows import Rows

        why = getattr(call.excinfo.value, "msg", None) or call.excinfo.typename
        why = " ".join(str(why).split())
        reason = f"skipped: {why}" if report.skipped else f"setup failed: {why}"
        Rows(item).keep_unmeasured(reason)
    return report
