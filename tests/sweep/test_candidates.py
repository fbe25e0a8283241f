"""What can be swept, by name."""

import pytest

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.kernels import KERNELS, standard
from pytest_attnmem.sweep.candidates import attention_of


def test_every_bundled_kernel_can_be_swept():
    for kernel in KERNELS:
        name = "standard-fused" if kernel.name == "standard" else kernel.name
        found = attention_of(name)
        assert (found.name, found.model, found.causal) == (name, kernel.model, kernel.causal)
        assert not found.masked
    assert attention_of("standard-fused").model is standard.MODEL


def test_standard_is_the_textbooks():
    found = attention_of("standard")
    assert (found.masked, found.model, found.ranks) == (True, None, 1)


def test_a_ring_has_ranks():
    found = attention_of("ring:16")
    assert (found.attend, found.ranks) == (None, 16)


@pytest.mark.parametrize("name", ["ring", "ring:0", "ring:-1", "ring:x", "flsh", ""])
def test_another_name_is_refused(name):
    with pytest.raises(BudgetError) as caught:
        attention_of(name)
    text = str(caught.value)
    assert text.startswith(f"unknown kernel {name!r}; ")
    assert text.endswith(", ring:4")
    assert ("did you mean 'flash'? " in text) == (name == "flsh")
