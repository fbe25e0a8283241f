"""Published numbers of real GPUs whose programs take seconds, on whichever PyTorch is installed."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")


@pytest.fixture(scope="module")
def scripts():
    names = ("run", "tables")  # other scripts of tests have such names too
    for name in names:
        sys.modules.pop(name, None)
    sys.path.insert(0, str(Path(__file__).parents[1] / "published"))
    import run
    import tables

    yield run, tables
    sys.path.pop(0)
    for name in names:
        sys.modules.pop(name)


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
