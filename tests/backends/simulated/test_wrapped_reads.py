"""Tensors that a transform wraps are printed and read as on a device."""

import pytest
import torch
from func_transforms import TRANSFORMS

from pytest_attnmem.errors import CannotSimulate

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # forward_ad's own


def reading(read, transform, x):
    """Calls a function of a wrapped tensor; returns what it returned, or its error."""
    found = []

    def function(wrapped):
        try:
            found.append(read(wrapped))
        except (RuntimeError, NotImplementedError, CannotSimulate) as error:
            found.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        return wrapped.sum()

    TRANSFORMS[transform](function)(x)
    return found


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("read", [repr, str, lambda x: f"{x[0]} {x.detach()}"])
def test_a_wrapped_tensor_is_printed_as_on_the_host(returned, transform, read):
    x = torch.arange(6.0).reshape(2, 3)
    found = returned(lambda: reading(read, transform, x.to("cuda")))
    assert [text.replace(", device='cuda:0'", "") for text in found] == reading(read, transform, x)


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_a_list_has_the_values_of_the_wrapped_tensor(returned, transform):
    x = torch.arange(6.0).reshape(2, 3)
    found = returned(lambda: reading(torch.Tensor.tolist, transform, x.to("cuda")))
    assert found == [x.tolist()]
