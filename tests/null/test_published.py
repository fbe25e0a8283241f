"""Published numbers of real GPUs whose programs take seconds, on whichever PyTorch is installed."""

import sys
from pathlib import Path

import pytest
import suites

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")


@pytest.fixture(scope="module")
def scripts():
    with suites.scripts("published", "run", "tables") as found:
        yield found


def test_the_fast_ones_are_equal(scripts):
    run, tables = scripts
    fast = [table for source in tables.sources().values() for table in source.tables if table.fast]
    compared = 0
    for group in run.groups(fast):
        answers = run.execute(Path(sys.executable), group, [])
        for table, answer in zip(group, answers, strict=True):
            pairs = table.compared(answer["rows"])
            assert [pair for pair in pairs if not pair.equal] == [], table.what
            compared += len(pairs)
    assert compared >= 150
