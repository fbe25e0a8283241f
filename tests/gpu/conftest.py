"""Tests on a real device; without one, each says why it did not run."""

import pytest

from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.errors import BackendUnavailable


@pytest.fixture
def cuda():
    try:
        backend = open_backend("cuda")
    except BackendUnavailable as error:
        pytest.skip(str(error))
    backend.prime()
    return backend
