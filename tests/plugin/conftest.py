"""Every test here runs a suite, so collecting garbage must cost little."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick(quick_collections):
    """Freeze what pytest and torch made."""
