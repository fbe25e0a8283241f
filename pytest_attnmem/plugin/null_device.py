"""A session on the null device: how it starts, and what it says of what is not true there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import BackendUnavailable
from ..nulldevice import counts as observe
from ..nulldevice.launch import devices, present, reexec
from ..profiles import offered_profiles
from .session import SESSION

if TYPE_CHECKING:
    from collections.abc import Generator

#: How the text of an error begins that the null device is the cause of.
_NO_CUDNN = "cuDNN error"


def start_again(config: pytest.Config, wanted: str) -> None:
    """See that this process runs on the device that ``null:…`` asks for; if not, become one.

    Arguments, environment and exit code stay as they are, and workers of xdist are started from
    here. Does not return where it starts another.

    Raises:
        pytest.UsageError: it cannot be had here; the text says why in one line.
    """
    try:
        more = offered_profiles(config.hook.pytest_attnmem_device_profiles())
        asked = devices(wanted.partition(":")[2], more)
        if present() == asked:
            return
        if [*map(str, config.invocation_params.args)] != sys.argv[1:]:
            raise BackendUnavailable(
                "pytest.main was called with arguments of its own, and the null device must be"
                " there before torch is; run pytest from the command line, or the program with"
                " attnmem run"
            )
        reexec([sys.executable, *sys.orig_argv[1:]], asked)
    except BackendUnavailable as error:
        raise pytest.UsageError(f"--attnmem-backend: {error}") from None


class NullSession:
    """Hooks of a session that runs on the null device."""

    def __init__(self, config: pytest.Config) -> None:
        from ..nulldevice.program import prepare

        prepare()
        self._config = config
        self._name = f"null:{present()}"

    def pytest_report_header(self) -> str:
        """Say what the results are of."""
        return f"attnmem: on {self._name}, where memory is as on CUDA and nothing is computed"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell a test that failed on a value, or for want of cuDNN, where it ran."""
        error = call.excinfo.value if call.excinfo else None
        note = self._note(error) if error else ""
        add = getattr(error, "add_note", None)
        if note and add:
            add(note)
        report = yield
        if note and not add:  # Python 3.10
            report.sections.append(("attnmem", note))
        return report

    def _note(self, error: BaseException) -> str:
        if isinstance(error, AssertionError):
            return (
                f"on {self._name} nothing is computed, and what is read from the device is zero;"
                " skip what a test says of values where attnmem.computes is False"
            )
        if str(error).startswith(_NO_CUDNN):
            return f"on {self._name} there is no cuDNN: its scratch is known on a GPU alone"
        return ""

    @pytest.hookimpl(trylast=True)  # under the line that counts
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the calls that had no answer."""
        environment = self._config.stash[SESSION].environment or {}
        for line in observe.unanswered(environment.get("null_device") or observe.counted()):
            terminalreporter.write_line(line)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Leave no thread of autograd at work when the process ends."""
        from ..nulldevice.program import settle

        settle()
