"""``--attnmem-disable``: the plugin does nothing."""

SUITE = """
import gc
import pytest
from scripted import memory

@pytest.mark.memory_budget(10)
def test_over():
    assert gc.isenabled()
    memory.use(11)

@pytest.mark.memory_budget("64 MB", backend="absent")
def test_bad(): pass

@pytest.mark.skip
@pytest.mark.memory_budget(10)
def test_skipped(): pass

def test_fixtures(attnmem):
    with attnmem.region("limited", 10) as region:
        memory.use(11)
    assert region.measurement.peak_bytes == 11
    with attnmem.region("measured"):
        memory.use(11)
    attnmem.check(attnmem.measure(memory.use, 11), 10)
    attnmem.compare(lambda: memory.use(11), lambda: memory.use(10))
"""


def test_nothing_is_enforced_or_reported(scripted):
    scripted.write(SUITE)
    ran = scripted.run("--attnmem-disable", "--strict-markers", "--attnmem-report")
    assert ran.outcomes == {"passed": 3, "skipped": 1}
    assert ran.rows == []
    assert [line for line in ran.result.outlines if "attnmem: " in line] == [
        "attnmem: disabled, budgets are not enforced"
    ]
    assert "memory budgets" not in ran.text


def test_the_default_is_disabled_too(scripted):
    scripted.write("""
from scripted import memory

def test_over(): memory.use(11)
""")
    ran = scripted.run("--attnmem-disable", "--attnmem-default=10 B")
    assert ran.outcomes == {"passed": 1}
    assert ran.rows == []
