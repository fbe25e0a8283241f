"""With pytest-xdist the workers judge, and the controller writes."""

import pytest

from .baselines import entry, everywhere, needing, read_baseline, states, write_baseline

pytest.importorskip("xdist")

GROUPED = """
import pytest
from scripted import memory

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.memory_budget
def test_grouped(n): memory.use(n)
"""


def test_the_file_is_as_without(scripted):
    scripted.write(needing(100) + GROUPED)
    path = scripted.path / "attnmem-baseline.json"
    scripted.run("--attnmem-update=all")
    alone = path.read_bytes()
    path.unlink()
    ran = scripted.run("--attnmem-update=all", "-n2", "--dist=loadgroup")
    assert ran.outcomes == {"passed": 6}
    assert path.read_bytes() == alone
    ran = scripted.run("--attnmem-strict=all", "-n1", "--dist=loadgroup")
    assert ran.outcomes == {"passed": 6}
    assert set(states(ran).values()) == {"same"}


@pytest.mark.thorough
def test_regressions_and_what_is_stale_are_as_without(scripted):
    scripted.write(needing(120))
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7))
    alone, spread = scripted.run(), scripted.run("-n2")
    assert spread.outcomes == {"failed": 3}
    assert states(spread) == states(alone)
    assert spread.line == alone.line
    assert "4 stale" not in spread.text
    ran = scripted.run("-n1", "--attnmem-update=prune")
    assert read_baseline(scripted).keys() == {"test_bare", "test_marked", "test_region part"}
    assert ran.outcomes == {"failed": 3}


def test_a_worker_that_died_is_not_the_whole_suite(scripted):
    scripted.write(needing(100) + "\nimport os\ndef test_die(): os._exit(1)\n")
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7))
    ran = scripted.run("-n1", "--attnmem-update=prune")
    assert "prune needs the whole suite: a worker crashed" in ran.text
    assert "test_gone" in read_baseline(scripted)
    assert "INTERNALERROR" not in ran.text


@pytest.mark.thorough
def test_left_out_tests_are_noticed_in_the_workers(scripted):
    scripted.write(needing(100))
    write_baseline(scripted, *everywhere(100), entry("test_gone", 7))
    ran = scripted.run("-n1", "-k", "not bare", "--attnmem-update=prune")
    assert "prune needs the whole suite: a test was left out" in ran.text
