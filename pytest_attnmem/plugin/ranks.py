"""Runs a test once for each rank of a world: ``memory_budget(…, ranks=8)``."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ..errors import BackendUnavailable, BudgetError
from ..nulldevice.launch import active
from ..nulldevice.torchrun import MAIL, begin, end, rank_environment
from ..symbols.attention_shape import Source
from ..symbols.names import WORLD
from .markers import MarkerLine
from .options import MARKER
from .plan import params_of
from .simulated_session import NAME as SIMULATED_SESSION

#: The symbols of a budget that a rank gives their values, and the arguments that a test may take.
RANK = "rank"
_RANKS = "ranks"


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Makes a test of each rank, if the closest marker that names ``ranks`` is right."""
    world = _world(metafunc.definition)
    if isinstance(world, int) and not isinstance(world, bool) and world > 0:
        metafunc.fixturenames += [n for n in (RANK, WORLD) if n not in metafunc.fixturenames]
        each = [(rank, world) for rank in range(world)]
        metafunc.parametrize((RANK, WORLD), each, ids=[f"rank{rank}" for rank in range(world)])


class RankHooks:
    """The hooks of tests that run as ranks."""

    NAME = "attnmem-ranks"

    def __init__(self) -> None:
        self._folders: dict[str, TemporaryDirectory[str]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Gives a test its rank for its fixtures, its body and its runs at other sizes."""
        params = params_of(item)
        if _world(item) is None or RANK not in params or not has_ranks(item.config):
            return (yield)
        vars(item)["runtest"] = _BodyOfRank(item.runtest)
        with self._as_rank(item.nodeid.partition("[")[0], params[RANK], params[WORLD]):
            return (yield)

    @contextmanager
    def _as_rank(self, test: str, rank: int, world: int) -> Iterator[None]:
        from ..backends.ranks.lone_rank import be_alone, leave_groups

        if test not in self._folders:
            self._folders[test] = TemporaryDirectory(prefix="attnmem-ranks-")
        folder = Path(self._folders[test].name)
        with _variables({**rank_environment(rank, world, 1), MAIL: str(folder)}):
            be_alone()
            begin(folder, rank)
            try:
                yield
            finally:
                leave_groups()
                end(folder, rank)

    def pytest_unconfigure(self) -> None:
        """Removes what the ranks sent to each other."""
        for folder in self._folders.values():
            folder.cleanup()


@contextmanager
def in_world(item: pytest.Item, world: int) -> Iterator[None]:
    """Makes a test that runs as a rank the same rank of a world of another size.

    Raises:
        BudgetError: fixtures made the process groups, and are made once.
    """
    from ..backends.ranks.lone_rank import be_alone

    body = vars(item).get("runtest")
    if isinstance(body, _BodyOfRank) and body.has_groups_of_fixtures:
        raise BudgetError(
            f"{WORLD} was not varied: a fixture makes the process groups, once; call"
            " init_process_group in the test"
        )
    given = rank_environment(params_of(item)[RANK], world, 1)
    with (
        TemporaryDirectory(prefix="attnmem-ranks-") as folder,  # letters of this world alone
        _variables({**given, MAIL: folder}),
    ):
        be_alone()
        yield
    be_alone()


@contextmanager
def _variables(given: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of the environment for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        yield


class _BodyOfRank:
    """The body of a test; each run but the first leaves the process groups of the run before."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self._theirs: bool | None = None
        """True if fixtures made the groups; None before the first run."""

    @property
    def has_groups_of_fixtures(self) -> bool:
        """Returns True if the body runs in process groups that fixtures made."""
        return bool(self._theirs)

    def __call__(self) -> None:
        from ..backends.ranks.lone_rank import forget_meshes, has_groups, leave_groups

        if self._theirs is None:
            self._theirs = has_groups()
        elif not self._theirs:
            leave_groups()
            forget_meshes()
        self._run()


def check_ranks(item: pytest.Item) -> None:
    """Fails a test whose ranks cannot run.

    Raises:
        BackendUnavailable: the session runs neither on the null device nor on a simulated one.
    """
    for node, mark in item.iter_markers_with_node(MARKER):
        if _RANKS in mark.kwargs and not has_ranks(item.config):
            where = MarkerLine(item, node, mark)
            raise BackendUnavailable(
                f"{MARKER}: ranks={mark.kwargs[_RANKS]} needs a device whose other ranks need no"
                " process: pytest --attnmem-backend null:H100, or simulated:H100, for the whole"
                f" session   {where}"
            )


def has_ranks(config: pytest.Config) -> bool:
    """Returns True for a session on a device whose collectives need no other process."""
    return active() or config.pluginmanager.has_plugin(SIMULATED_SESSION)


def world_of(item: pytest.Item) -> int | None:
    """Returns the number of ranks of a test's world; None if it has no world."""
    world = _world(item)
    return world if isinstance(world, int) else None


def meshes(item: pytest.Item) -> Source:
    """Returns the sizes of the device meshes that a test of many ranks made, as symbols."""
    if world_of(item) is None or not has_ranks(item.config):
        return Source("the device mesh", {})
    from ..backends.ranks.lone_rank import mesh_sizes

    return Source("the device mesh", mesh_sizes())


def _world(node: pytest.Item | pytest.Collector) -> object:
    """Returns the ranks of the closest marker that names them; None if there is none."""
    for mark in node.iter_markers(MARKER):
        if _RANKS in mark.kwargs:
            return mark.kwargs[_RANKS]
    return None
