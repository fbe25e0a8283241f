"""Candidates of a sweep are found by name."""

import pytest

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.kernels import KERNELS, standard
from pytest_attnmem.sweep.candidates import candidate_named


def test_every_bundled_kernel_can_be_swept():
    for kernel in KERNELS:
        found = candidate_named(kernel.name)
        assert (found.name, found.model) == (kernel.name, kernel.model)
        assert found.causal == kernel.causal
        assert not found.masked
    assert candidate_named("standard").model is standard.MODEL


def test_the_textbooks_has_a_name_of_its_own():
    found = candidate_named("textbook")
    assert (found.masked, found.model, found.ranks) == (True, None, 1)


def test_a_ring_has_ranks():
    found = candidate_named("ring:16")
    assert (found.attend, found.ranks) == (None, 16)


@pytest.mark.parametrize("name", ["ring", "ring:0", "ring:-1", "ring:x", "flsh", ""])
def test_another_name_is_refused(name):
    with pytest.raises(BudgetError) as caught:
        candidate_named(name)
    text = str(caught.value)
    assert text.startswith(f"unknown kernel {name!r}; ")
    assert text.endswith(", ring:4")
    assert ("did you mean 'flash'? " in text) == (name == "flsh")
