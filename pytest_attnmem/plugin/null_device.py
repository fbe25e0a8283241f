"""Starts a session on the null device, and reports the calls that the device could not answer."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ..errors import BackendUnavailable
from ..measurement.values_limit import parse_values_limit
from ..nulldevice import counts
from ..nulldevice.kept_build import put_in_front
from ..nulldevice.launch import active, devices, load, may_load, present, reexec
from ..profiles import offered_profiles
from .options import Settings
from .session import SESSION


def begin(config: pytest.Config, wanted: str) -> None:
    """Puts this process on the device ``null:…``, unless it runs there already.

    Where a plugin has imported torch, the process is replaced by another with the same arguments,
    environment and exit code. Workers of pytest-xdist inherit the device.

    Raises:
        pytest.UsageError: the device is not available.
    """
    try:
        more = offered_profiles(config.hook.pytest_attnmem_device_profiles())
        asked = devices(wanted.partition(":")[2], more)
        if present() == asked:
            put_in_front()
            return
        if not active() and may_load():
            load(asked)
            return
        if [*map(str, config.invocation_params.args)] != sys.argv[1:]:
            raise BackendUnavailable(
                "pytest.main was called with arguments of its own where torch is imported, and the"
                " null device must be there before; call it before torch is imported, run pytest"
                " from the command line, or the program with attnmem run"
            )
        reexec([sys.executable, *sys.orig_argv[1:]], asked)
    except BackendUnavailable as error:
        raise pytest.UsageError(f"--attnmem-backend: {error}") from None


class NullSession:
    """The hooks of a session on the null device."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        from ..backends.null.built_kernels import refuse_without_kernels
        from ..backends.null.program import prepare

        try:
            refuse_without_kernels()
        except BackendUnavailable as error:
            raise pytest.UsageError(f"--attnmem-backend: {error}") from None
        prepare(parse_values_limit(settings.values_limit))
        self._config = config
        self._name = f"null:{present()}"

    def pytest_report_header(self) -> str:
        """Returns a line that names the device."""
        return f"attnmem: on {self._name}, which allocates like CUDA; values are computed when read"

    @pytest.hookimpl(trylast=True)  # after the line with the totals
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the calls that the null device could not answer."""
        environment = self._config.stash[SESSION].environment or {}
        for line in counts.unanswered(environment.get("null_device") or counts.counted()):
            terminalreporter.write_line(line)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Stops the threads of autograd before the process ends."""
        from ..backends.null.program import settle

        settle()
