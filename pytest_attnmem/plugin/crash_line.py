"""What is added to the report of a failure: a line of the test, and a hint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest


_PACKAGE = Path(__file__).parents[1]


def point_at_test(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> None:
    """Moves a failure's line from this package to the test's first; no frame is the test's own.

    ``--tb=line``, editors and annotations of a pull request show it.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or call.excinfo is None or _PACKAGE not in Path(crash.path).parents:
        return
    path, first, _ = item.reportinfo()
    crash.path, crash.lineno = str(path), (first or 0) + 1


#: The function of torch/cuda/__init__.py that raises where the build or the driver is missing.
_RAISES: Final = "_lazy_init"
_HINT: Final = (
    "there is no CUDA device here; --attnmem-backend simulated:H100 shows the test one, and"
    " measures its memory"
)


def add_hint(call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Adds the backend that needs no device to the report of a failure for want of one."""
    frames = call.excinfo.traceback[-1:] if call.excinfo is not None else ()
    if any(frame.name == _RAISES for frame in frames):
        report.sections.append(("memory budget", _HINT))
