"""The work that one read may still do."""

import pytest

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.values.work import WorkLeft


def test_a_read_may_do_the_work_of_its_limit_and_no_more():
    left = WorkLeft()
    left.allow(10)
    left.spend(4)
    left.spend(6)
    with pytest.raises(UnknownValue) as error:
        left.spend(1)
    assert str(error.value) == (
        "it takes more floating-point operations than --attnmem-values-limit, which is 1.0e+01"
    )
    left.allow(10)
    left.spend(10)
