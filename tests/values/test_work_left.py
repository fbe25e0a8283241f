"""The work that one read may still do."""

import pytest

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.values.work_left import WorkLeft


def test_a_read_may_do_the_work_of_its_limit_and_no_more():
    left = WorkLeft()
    left.begin(10)
    left.take(4)
    left.take(6)
    with pytest.raises(UnknownValue) as error:
        left.take(1)
    assert str(error.value) == (
        "it takes more floating-point operations than --attnmem-values-limit, which is 1.0e+01"
    )
    left.begin(10)
    left.take(10)
