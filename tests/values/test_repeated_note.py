"""The calls whose notes are alike."""

import pytest
import torch

from pytest_attnmem.values.notes import Layout, Layouts
from pytest_attnmem.values.repeated_note import repeated_note

aten = torch.ops.aten
ONE = Layout(torch.ones(2))


def test_a_call_that_makes_one_new_tensor_has_one():
    found = repeated_note(aten.add.Tensor, (None, 2), (0,), {}, Layouts((ONE,), (ONE,)))
    assert (found.func, found.args, found.places) == (aten.add.Tensor, (None, 2), (0,))
    assert (found.inputs, found.output) == ((ONE,), ONE)


def test_a_call_that_reads_sizes_alone_has_the_layout_in_the_place_of_the_tensor():
    found = repeated_note(aten.zeros_like.default, (None,), (0,), {}, Layouts((ONE,), (ONE,)))
    assert (found.args, found.places, found.inputs) == ((ONE,), (), ())


@pytest.mark.parametrize(
    ("func", "layouts"),
    [
        (aten.add_.Tensor, Layouts((ONE,), (ONE,))),  # it changes its argument
        (aten.bernoulli.default, Layouts((ONE,), (ONE,))),  # it draws numbers
        (aten.set_.source_Tensor, Layouts((ONE,), (ONE,))),
        (aten.exp.default, Layouts((), ())),  # nobody noted its tensors
        (aten.exp.default, Layouts((None,), (ONE,))),  # it is sparse
        (aten.max.dim, Layouts((ONE,), (ONE, ONE))),
    ],
)
def test_a_call_of_another_kind_has_none(func, layouts):
    assert repeated_note(func, (None,), (0,), {}, layouts) is None
