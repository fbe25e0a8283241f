"""Tensors that a transform wraps are printed and read as on a device."""

import copy
import io

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
def test_a_wrapped_tensor_is_printed_as_on_the_host(run, transform, read):
    x, found = torch.arange(6.0).reshape(2, 3), []
    (expected,) = reading(read, transform, x)
    run(lambda: found.extend(reading(read, transform, x.to("cuda"))))
    assert [text.replace(", device='cuda:0'", "") for text in found] == [expected]


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_a_list_has_the_values_of_the_wrapped_tensor(run, transform):
    x, found = torch.arange(6.0).reshape(2, 3), []
    run(lambda: found.extend(reading(torch.Tensor.tolist, transform, x.to("cuda"))))
    assert found == [x.tolist()]


@pytest.mark.parametrize("transform", ["grad", "vmap"])
@pytest.mark.parametrize(
    "read",
    [copy.copy, copy.deepcopy, torch.Tensor.is_shared, lambda x: torch.save(x, io.BytesIO())],
    ids=["copy", "deepcopy", "is_shared", "save"],
)
def test_there_is_no_storage_below_a_wrapper(run, transform, read):
    x, found = torch.ones(2, 3), []
    kind = "TensorWrapper" if transform == "grad" else "BatchedTensorImpl"
    run(lambda: found.extend(reading(read, transform, x.to("cuda"))))
    assert found == [f"NotImplementedError: Cannot access storage of {kind}"]


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda x: x.cpu().numpy(), "Can't call numpy() on Tensor that requires grad."),
        (lambda x: x.cpu().apply_(abs), "Can't call apply_() on Variable that requires grad."),
    ],
    ids=["numpy", "apply_"],
)
def test_the_memory_of_a_tensor_with_a_gradient_is_not_read(run, read, error):
    found = []
    run(lambda: found.extend(reading(read, "grad", torch.ones(2, 3, device="cuda"))))
    assert found[0].startswith(f"RuntimeError: {error}")
