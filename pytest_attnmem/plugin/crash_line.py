"""The line that a failure names: a line of the test, where this package raised the error.

``--tb=line``, editors and annotations of a pull request show it (``reprcrash`` in a report).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_PACKAGE = Path(__file__).parents[1]


def point_at_test(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> None:
    """Moves a failure's line from this package to the test's first; no frame is the test's own."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or call.excinfo is None or _PACKAGE not in Path(crash.path).parents:
        return
    path, first, _ = item.reportinfo()
    crash.path, crash.lineno = str(path), (first or 0) + 1
