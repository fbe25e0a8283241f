"""The column ``backend`` names the backend, also of one that a plugin registers for a device."""

import pytest

from pytest_attnmem.report import cells
from pytest_attnmem.report.record import Record


@pytest.mark.parametrize(
    ("backend", "device", "shown"),
    [
        ("mine", "cuda:0", "mine on cuda:0"),
        ("mine", "mine", "mine"),
        ("cuda", "cuda:1", "cuda:1"),
        ("accelerator", "xpu:0", "xpu:0"),
        ("cpu", "cpu", "cpu"),
        ("null:H100", "cuda:0", "null:H100"),
        ("simulated:H100", "cuda:0", "simulated:H100"),
        ("", "", ""),
    ],
)
def test_the_column(backend: str, device: str, shown: str) -> None:
    assert cells.backend(Record("a.py::test", backend=backend, device=device)) == shown
