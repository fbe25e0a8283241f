"""All gates pass good variants and fail bad ones, and each failure names the guilty line.

``tests/null/test_zoo.py`` does the same on the null device.
"""

import pytest
from zoo import table
from zoo.endings import caught, problems
from zoo.gates import run
from zoo.pair import pairs

PAIRS = pairs()


@pytest.fixture(scope="module", params=["cpu", "simulated:H100"])
def endings(request):
    """The endings of all gates on a backend."""
    return run(request.param, forms=request.param == "cpu")


@pytest.mark.parametrize("name", PAIRS)
def test_pair(endings, name):
    assert problems(PAIRS[name], endings) == []


def test_the_page_has_what_was_caught(endings):
    assert {name: caught(one, endings) for name, one in PAIRS.items()} == table.claimed()


def test_the_page_is_current():
    assert table.written() == table.table(dict.fromkeys(table.BACKENDS, table.claimed()))
