"""What suites of several verdicts share."""

import pytest


@pytest.fixture(params=["cpu", pytest.param("simulated:H100", marks=pytest.mark.thorough)])
def backend(request):
    """Each backend on which a verdict is the same."""
    return request.param


@pytest.fixture
def suite(suite, request):
    """A suite that begins with ``HEAD`` of the test's module, if there is one."""
    suite.head = getattr(request.module, "HEAD", suite.head)
    return suite


@pytest.fixture
def scripted(scripted, request):
    """The same on the device whose numbers its tests dictate."""
    scripted.head = getattr(request.module, "HEAD", scripted.head)
    return scripted


@pytest.fixture
def short(suite):
    """A suite with short names of its marks."""
    suite.head += "budget, sizes = pytest.mark.memory_budget, pytest.mark.parametrize\n"
    return suite
