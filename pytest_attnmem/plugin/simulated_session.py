"""A session on a simulated device: fixtures, imports and all tests see the device from the start.

Only sessions with the backend ``simulated`` import this module, before any conftest file. They do
not import torch before the suite does.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from ..backends.import_watch import after_import
from ..errors import AttnMemError, BackendUnavailable
from ..measurement.environment import kept_workspaces
from .backend_option import keeps_workspaces
from .plan import values_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from contextlib import AbstractContextManager

    from ..backends.registry import Opener
    from ..backends.simulated.session.session_device import SessionDevice
    from ..measurement.protocol import BackendProtocol

#: The plugin's name.
NAME = "attnmem-simulated"
#: True for a collector if what it imported put tensors on the device.
_NAMED = pytest.StashKey[bool]()
#: Backends that would take the simulated device for their own.
_OF_REAL_DEVICES = ("cuda", "accelerator", "null")


def begin(config: pytest.Config, backend: str) -> SimulatedSession:
    """Returns the plugin, which it registers unless that is done."""
    plugin: SimulatedSession | None = config.pluginmanager.get_plugin(NAME)
    if plugin is None:
        plugin = SimulatedSession(config, backend)
        config.pluginmanager.register(plugin, NAME)
    return plugin


class SimulatedSession:
    """The hooks of a session on a simulated device."""

    def __init__(self, config: pytest.Config, backend: str) -> None:
        self._config = config
        self.name = backend
        self._argument = backend.partition(":")[2]
        self._backend: BackendProtocol | None = None
        self._outside: SessionDevice | None = None
        self._switches = ExitStack()
        self._named_by_conftest = False
        self._fixtures: set[tuple[str, str]] = set()
        """The fixtures that put tensors on the device, by name and place."""
        if "torch" not in sys.modules:  # it asks for real devices once
            patch = pytest.MonkeyPatch()
            patch.setenv("CUDA_VISIBLE_DEVICES", "")
            config.add_cleanup(patch.undo)
        config.add_cleanup(after_import("torch", lambda _: self.show()))
        config.add_cleanup(self._hide)

    def show(self) -> None:
        """Shows the device to the process, unless only a conftest file knows its profile."""
        from ..backends.registry import SHOWN, open_backend, with_profiles
        from ..profiles import offered_profiles

        if self._outside is None:
            if keeps_workspaces(self._config):  # from the device's first product on
                self._switches.enter_context(kept_workspaces())
            try:
                offered = self._config.hook.pytest_attnmem_device_profiles()
                openers = with_profiles(offered_profiles(offered), without_rules=True)
                self._backend = open_backend(f"simulated:{self._argument}", openers)
            except AttnMemError:
                return  # each test that measures says so
            self._outside = self._backend.outside()  # type: ignore[attr-defined]
            self._outside.enter()
            setattr(sys.modules["torch.library"], SHOWN, self)

    def show_now(self) -> None:
        """Shows the device if torch is there: all profiles are known now."""
        if "torch" in sys.modules:
            self.show()

    def _hide(self) -> None:
        from ..backends.registry import SHOWN

        if self._outside is not None:
            self._outside.exit()
            delattr(sys.modules["torch.library"], SHOWN)
        self._switches.close()

    def as_installed(self) -> AbstractContextManager[None]:
        """Returns a context in which PyTorch's devices are those of the machine."""
        return nullcontext() if self._outside is None else self._outside.left()

    def openers(self, openers: Mapping[str, Opener]) -> Mapping[str, Opener]:
        """Returns the openers of a session whose programs see the simulated device."""
        apart = {name: self._apart(name, opener) for name, opener in openers.items()}
        return {**apart, "simulated": self._joined(openers["simulated"])}

    def _joined(self, opener: Opener) -> Opener:
        def opened(argument: str) -> BackendProtocol:
            if self._backend is not None and argument == self._argument:
                return self._backend
            with self.as_installed():
                backend = opener(argument)
            if self._outside is not None:
                backend.join(self._outside)  # type: ignore[attr-defined]
            return backend

        return opened

    def _apart(self, name: str, opener: Opener) -> Opener:
        def opened(argument: str) -> BackendProtocol:
            with self.as_installed():
                backend = opener(argument)
            if name in _OF_REAL_DEVICES and self._outside is not None:
                raise BackendUnavailable(
                    f"backend {name!r} cannot measure in a session on 'simulated', whose device"
                    " takes the place of the real one; run it in a session of its own"
                )
            return backend

        return opened

    # The code outside windows that puts tensors on the device

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Notes whether the modules of a collector put tensors on the device at their import."""
        if self._outside is None:
            return (yield)
        before, self._outside.named = self._outside.named, False
        try:
            return (yield)
        finally:
            collector.stash[_NAMED] = self._outside.named
            self._outside.named = before

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        """Notes whether a fixture puts tensors on the device; later tests may share its value."""
        if self._outside is None:
            return (yield)
        before, self._outside.named = self._outside.named, False
        try:
            return (yield)
        finally:
            if self._outside.named:
                self._fixtures.add((fixturedef.argname, fixturedef.baseid))
            self._outside.named |= before

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Notes whether the first conftest files put tensors on the device."""
        if self._outside is not None:
            self._named_by_conftest = self._outside.named

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Ends the test before, and notes whether the test's modules put tensors on the device."""
        if self._outside is not None:
            self._outside.settle()
            named = (node.stash.get(_NAMED, False) for node in item.listchain())
            self._outside.named = self._named_by_conftest or any(named)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before the window
    def pytest_runtest_call(self, item: Any) -> Generator[None, object, object]:
        """Notes whether fixtures that were made for earlier tests have tensors on the device."""
        if self._outside is not None:
            self._outside.note_values(values_of(item).values())
            used = getattr(item, "fixturenames", ())
            self._outside.named |= any(
                name in used and item.nodeid.startswith(place) for name, place in self._fixtures
            )
        return (yield)
