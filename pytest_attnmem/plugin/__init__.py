"""The pytest plugin, the only folder that imports pytest; here are its hooks.

Each calls the module that does the work. Every session imports this module. A hook imports what
measures when a test is measured, so that a suite without budgets waits for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from ..errors import AttnMemError, NotEnforced, first_line
from . import hookspecs
from .backend_option import (
    asked_backend,
    check_device,
    offered_openers,
    shows_simulated_device,
)
from .fixtures import attnmem, qkv
from .options import (
    MARKER,
    OPTIONS,
    SELECTING,
    add_options,
    read_settings,
    wants_baseline,
)
from .plan import MARKS, PLAN, is_measured, wants_measuring
from .reported_errors import ReportedErrors
from .reporter import Reporter, Worker
from .row_transport import has_rows
from .session import SESSION, Session, can_measure

__all__ = ["attnmem", "qkv"]

#: Repeats the signature of ``budgets.parsing.memory_budget``, which is imported only if a test has
#: the marker.
MARKER_LINES = (
    "memory_budget(limit=None, *, metric='peak', tolerance=0, exact=False, backend=None,"
    " device=None, warmup=0, ranks=None, compiled=None, fixed=(), **symbols): hold the"
    " test's peak memory to limit: a size, a formula, a growth contract, a model, a callable or a"
    " dict.",
    "attnmem: set by pytest-attnmem on every test that is measured, by a memory_budget, by the"
    " attnmem fixture, by --attnmem-default or by a baseline; select these tests with -m attnmem.",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of this plugin."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds the hooks of this plugin."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before output is captured
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Provides the device of ``null`` or ``simulated`` before conftests are imported."""
    words = {*map(str, early_config.invocation_params.args)}
    words.update(os.environ.get("PYTEST_ADDOPTS", "").split())
    if flags := words & {option.flag for option in OPTIONS}:
        from .option_values import check_rootdir

        try:
            check_rootdir(early_config, flags)
        except AttnMemError as error:
            raise pytest.UsageError(str(error)) from None
    wanted = asked_backend(early_config)
    if wanted.partition(":")[0] == "null":
        from . import null_device

        null_device.begin(early_config, wanted)
    if shows_simulated_device(early_config, wanted):
        from .simulated_session import begin

        begin(early_config, wanted)
    return (yield)


@pytest.hookimpl(trylast=True)  # after conftest files have registered backends
def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, and checks the options."""
    for line in MARKER_LINES:
        config.addinivalue_line("markers", line)
    try:
        settings = read_settings(config)
        openers = offered_openers(config, settings.backend)
        session = config.stash[SESSION] = Session(settings, openers)
        if shows_simulated_device(config, settings.backend):
            from .simulated_session import begin

            session.simulated = begin(config, settings.backend)
            session.simulated.show_now()
        if wants_baseline(config, settings):
            from .baseline_hooks import BaselineSession

            config.pluginmanager.register(BaselineSession(config, session), "attnmem-baseline")
    except AttnMemError as error:
        raise pytest.UsageError(str(error)) from error
    reporter = Worker(config) if hasattr(config, "workerinput") else Reporter(config, session)
    config.pluginmanager.register(reporter, "attnmem-reporter")
    config.pluginmanager.register(ReportedErrors(), "attnmem-errors")
    if "ATTNMEM_NULL_PROFILE" in os.environ:
        from .null_device import NullSession

        config.pluginmanager.register(NullSession(config, settings), "attnmem-null")


@pytest.hookimpl(tryfirst=True)  # before xdist starts workers
def pytest_sessionstart(session: pytest.Session) -> None:
    """Stops the session if the device is missing, instead of failing every test."""
    try:
        check_device(session.config, session.config.stash[SESSION].openers)
    except AttnMemError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test of each rank, for a budget of many ranks."""
    if metafunc.definition.get_closest_marker(MARKER) is None:
        return
    from .ranks import parametrize

    parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks every measured test, so that ``-m attnmem`` selects it."""
    session = config.stash[SESSION]
    measured = [item for item in items if is_measured(item, session)]
    for item in measured:
        item.add_marker(SELECTING)
    if measured:
        from .ranks import RankHooks

        session.prepare()
        if not config.pluginmanager.has_plugin(RankHooks.NAME):
            config.pluginmanager.register(RankHooks(), RankHooks.NAME)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restores the environment and the garbage collector."""
    if SESSION in config.stash:
        config.stash[SESSION].end()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Plans the measurements, before fixtures are made and after skips are decided."""
    session = item.config.stash[SESSION]
    if not wants_measuring(item, session):
        return
    from ..measurement.project import set_root
    from .planner import plan_or_fail

    session.begin_test()
    set_root(item.config.rootpath)
    plan = plan_or_fail(item)
    if plan is not None and hasattr(item.config, "workerinput"):
        from .row_writer import RowWriter

        RowWriter(item).send_placeholder(spec for spec, _ in plan.budgets)
    session.freeze(item.path)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Records the arguments of the test that a fixture reads: these cannot be varied."""
    item = getattr(request, "_pyfuncitem", None) or request.node
    if PLAN not in item.stash:
        return (yield)
    from .fresh_fixtures import noted

    with noted(item, fixturedef.argname):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)  # innermost: only the body, no other plugin
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measures and judges the body."""
    plan = item.stash.get(PLAN, None)
    if item.stash.get(MARKS, 0) != sum(1 for _ in item.iter_markers(MARKER)):  # a fixture added one
        from .planner import plan_or_fail

        plan = plan_or_fail(item)
    if plan is None:
        return (yield from _unplanned(item))
    from .call_phase import CallPhase

    return (yield from CallPhase(item, plan).run())


def _unplanned(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a body without a budget, which may still request our fixtures by name and measure."""
    result: object = None
    error: BaseException | None = None
    try:
        result = yield
    except BaseException as raised:
        if PLAN not in item.stash:
            raise
        error = raised
    if PLAN in item.stash:
        from .call_phase import CallPhase

        CallPhase(item, item.stash[PLAN]).conclude(error)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Sends the rows of a test if the session is stopped in it."""
    try:
        return (yield)
    except (KeyboardInterrupt, pytest.exit.Exception) as stop:
        if has_rows(item.user_properties) or _is_enforced(item):
            from .row_writer import RowWriter

            RowWriter(item).stop(stop)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Frees the test's inputs, and thaws the collector unless the next test is measured too."""
    session = item.config.stash[SESSION]
    if PLAN in item.stash:
        from .another_run import forget_state

        forget_state(item)
    try:
        return (yield)
    finally:
        if PLAN in item.stash:
            item.stash[PLAN].memory.conclusions.exceeded.clear()  # errors, and the frames they hold
            del item.stash[PLAN]
        if session.has_frozen:
            again = nextitem is not None and wants_measuring(nextitem, session)
            session.unfreeze(unless=nextitem.path if again and nextitem else None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Writes a row for a marked test that did not reach its body, and marks expected failures."""
    report = yield
    if call.when == "setup" and call.excinfo is not None and _is_enforced(item):
        from .row_writer import RowWriter

        error = call.excinfo.value
        why = getattr(error, "msg", None) or call.excinfo.typename
        why = first_line(error) if isinstance(error, NotEnforced) else " ".join(str(why).split())
        reason = f"skipped: {why}" if report.skipped else f"setup failed: {why}"
        RowWriter(item).write_unmeasured(reason)
    if report.failed and call.excinfo is not None and can_measure():
        from .reported_errors import add_hint, point_at_test

        point_at_test(item, call, report)
        if PLAN in item.stash:
            add_hint(call, report)
            for exceeded in item.stash[PLAN].memory.conclusions.exceeded:
                exceeded.reported |= exceeded.explains(call.excinfo.value)
    if has_rows(item.user_properties):
        from .row_writer import RowWriter

        RowWriter(item).mark_expected(report)
    return report


def _is_enforced(item: pytest.Item) -> bool:
    marked = item.get_closest_marker(MARKER) is not None
    return marked and not item.config.stash[SESSION].settings.disable
