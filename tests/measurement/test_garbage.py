import gc
import weakref
from pathlib import Path

import pytest

from pytest_attnmem import measure
from pytest_attnmem.measurement.garbage import GarbageFreezer, anything_frozen, unfreeze_all

HERE, THERE = Path("test_here.py"), Path("test_there.py")


class Node:
    pass


def cycle():
    node = Node()
    node.itself = node
    return node


@pytest.fixture(autouse=True)
def thawed():
    unfreeze_all()
    yield
    unfreeze_all()


def test_earlier_and_later_garbage_is_collected():
    collector = GarbageFreezer()
    for _ in range(2):
        dead = weakref.ref(cycle())
        collector.freeze(HERE)
        assert dead() is None


def test_objects_frozen_in_use_are_collected_when_another_file_begins():
    collector = GarbageFreezer()
    fixture = cycle()
    dead = weakref.ref(fixture)
    collector.freeze(HERE)
    del fixture
    collector.freeze(HERE)
    assert dead() is not None
    collector.freeze(THERE)
    assert dead() is None


def test_unfreezing_makes_surviving_objects_collectable():
    collector = GarbageFreezer()
    collector.unfreeze()  # nothing yet
    collector.freeze(HERE)
    collector.unfreeze(unless=HERE)
    assert gc.get_freeze_count() > 0
    for _ in range(2):  # twice is the same as once
        collector.unfreeze(unless=THERE)
        assert gc.get_freeze_count() == 0
    collector.freeze(HERE)
    collector.unfreeze()
    assert gc.get_freeze_count() == 0


def test_frozen_objects_are_not_counted_by_each_window(monkeypatch):
    collector = GarbageFreezer()
    assert not anything_frozen()
    collector.freeze(HERE)
    monkeypatch.delattr(gc, "get_freeze_count")
    assert anything_frozen()
    measure(list)
    monkeypatch.undo()
    collector.unfreeze()
    assert not anything_frozen()


def test_objects_that_the_program_froze_stay_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    collector = GarbageFreezer()
    collector.freeze(HERE)
    collector.unfreeze()
    assert anything_frozen()
    assert gc.get_freeze_count() == pytest.approx(frozen, abs=1000)
    assert gc.get_freeze_count() > 0
