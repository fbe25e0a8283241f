"""The hint below a failure of a test that uses CUDA where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

#: The errors of torch/cuda/__init__.py (_lazy_init), of a build without CUDA and without a driver.
_ERRORS: Final = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver")
_HINT: Final = (
    "there is no CUDA device here; --attnmem-backend simulated:H100 shows the test one, and"
    " measures its memory"
)


def add_hint(call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Adds the backend that needs no device to the report of a failure for want of one."""
    if call.excinfo is not None and str(call.excinfo.value).startswith(_ERRORS):
        report.sections.append(("memory budget", _HINT))
