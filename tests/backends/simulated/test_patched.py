"""Attributes that are replaced for a while, and that a program replaces too."""

import math
import types

import pytest

from pytest_attnmem.backends.simulated.patched import are_set, patched
from pytest_attnmem.profiles import find_profile

installed = math.sqrt
ours = find_profile  # of this package


def programs():
    return "the program's"


@pytest.fixture
def patch():
    module = types.ModuleType("owner")
    module.function, module.flag = installed, False
    return module, {(module, "function"): ours, (module, "flag"): True, (module, "new"): 1}


def test_they_are_restored(patch):
    module, patches = patch
    with patched(patches):
        assert are_set(patches)
        assert (module.function, module.flag, module.new) == (ours, True, 1)
    assert (module.function, module.flag, hasattr(module, "new")) == (installed, False, False)


def test_what_a_program_set_before_stays(patch):
    module, patches = patch
    with patched(patches):
        pass
    module.function = programs
    with patched(patches):
        assert (module.function, module.flag) == (programs, True)
    assert module.function is programs


def test_what_a_program_sets_inside_and_puts_back_after(patch):
    module, patches = patch
    with patched(patches):
        before, module.function = module.function, programs
        assert not are_set(patches)
    assert module.function is programs
    module.function = before  # as ``monkeypatch`` does when the test is torn down
    with patched(patches):
        assert module.function is ours
    assert module.function is installed


def test_they_nest(patch):
    module, patches = patch
    with patched(patches):
        with patched({(module, "function"): installed}):
            assert module.function is installed
        assert module.function is ours
    assert module.function is installed
