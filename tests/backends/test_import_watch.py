"""A function that is called once a module is imported."""

import importlib.util
import sys

import pytest

from pytest_attnmem.backends.import_watch import after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "watched_module.py").write_text("value = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "watched_module"
    sys.modules.pop("watched_module", None)


def test_it_is_called_at_the_import_though_a_program_asks_for_the_spec_before(module):
    found = []
    after_import(module, lambda module: found.append(module.value))
    assert importlib.util.find_spec(module) is not None
    assert importlib.util.find_spec(module).name == module
    assert found == []
    importlib.import_module(module)
    assert found == [5]
    assert module not in {getattr(finder, "_name", "") for finder in sys.meta_path}


def test_it_is_called_at_once_for_an_imported_module(module):
    importlib.import_module(module)
    found = []
    after_import(module, lambda module: found.append(module.value))
    assert found == [5]


def test_a_watch_that_gave_up_calls_nothing(module):
    found = []
    give_up = after_import(module, found.append)
    spec = importlib.util.find_spec(module)
    give_up()
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    importlib.import_module(module)
    assert found == []


def test_a_missing_module_stays_missing():
    give_up = after_import("no_such_module_at_all", pytest.fail)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_at_all")
    give_up()


def test_two_watches_of_one_module_are_both_called(module):
    found = []
    after_import(module, lambda module: found.append(("first", module.value)))
    after_import(module, lambda module: found.append(("second", module.value)))
    importlib.import_module(module)
    assert found == [("first", 5), ("second", 5)]
