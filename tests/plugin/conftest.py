"""Every test here runs a suite, so garbage collection must be cheap."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick(quick_collections):
    """Freezes the objects of pytest and torch."""
