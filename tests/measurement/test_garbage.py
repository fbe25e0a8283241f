import gc
import weakref
from pathlib import Path

import pytest

from pytest_attnmem.measurement.garbage import GarbageFreezer

HERE, THERE = Path("test_here.py"), Path("test_there.py")


class Node:
    pass


def cycle():
    node = Node()
    node.itself = node
    return node


@pytest.fixture(autouse=True)
def thawed():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_it_collects_what_is_lying_about():
    dead = weakref.ref(cycle())
    GarbageFreezer().settle(HERE)
    assert dead() is None


def test_what_survives_is_frozen():
    GarbageFreezer().settle(HERE)
    assert gc.get_freeze_count() > 0


def test_what_comes_later_is_still_found():
    collector = GarbageFreezer()
    collector.settle(HERE)
    dead = weakref.ref(cycle())
    collector.settle(HERE)
    assert dead() is None


def test_what_was_frozen_in_use_is_found_when_another_file_begins():
    collector = GarbageFreezer()
    fixture = cycle()
    dead = weakref.ref(fixture)
    collector.settle(HERE)
    del fixture
    collector.settle(HERE)
    assert dead() is not None
    collector.settle(THERE)
    assert dead() is None


def test_thawing_makes_everything_collectable():
    collector = GarbageFreezer()
    collector.settle(HERE)
    collector.thaw(unless=HERE)
    assert gc.get_freeze_count() > 0
    collector.thaw()
    assert gc.get_freeze_count() == 0


def test_thawing_twice_is_as_good_as_once():
    collector = GarbageFreezer()
    collector.thaw()
    collector.settle(HERE)
    collector.thaw(unless=THERE)
    collector.thaw(unless=THERE)
    assert gc.get_freeze_count() == 0


def test_somebody_elses_frozen_objects_stay_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    collector = GarbageFreezer()
    collector.settle(HERE)
    collector.thaw()
    assert gc.get_freeze_count() == pytest.approx(frozen, abs=1000)
    assert gc.get_freeze_count() > 0
