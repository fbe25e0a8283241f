"""What an operator checks on every device is PyTorch's own error on the simulated device."""

import pytest
import torch
from torch.func import grad

from pytest_attnmem.backends.simulated.dtypes.host_checks import error_on_host

COMPLEX = torch.complex64


def zeros(*shape, dtype=torch.float32, device="cuda"):
    return torch.zeros(*shape, dtype=dtype, device=device)


REFUSED = {
    "std": lambda on: zeros(4, dtype=torch.int64, device=on).std(),
    "bool - bool": lambda on: torch.tensor([True], device=on) - torch.tensor([False], device=on),
    "fmin": lambda on: torch.fmin(*[zeros(4, dtype=COMPLEX, device=on)] * 2),
    "ceil": lambda on: zeros(4, dtype=COMPLEX, device=on).ceil_(),
    "argmax": lambda on: zeros(4, dtype=torch.bool, device=on).argmax(),
    "index_add": lambda on: zeros(4, device=on).index_add(
        0, zeros(2, device=on), zeros(2, device=on)
    ),
    "index_copy": lambda on: zeros(4, device=on).index_copy(
        0, zeros(1, device=on), zeros((), device=on)
    ),
    "full_like": lambda on: torch.full_like(zeros(4, dtype=torch.uint8, device=on), 300),
}


@pytest.mark.parametrize("call", REFUSED)
def test_the_error_is_that_of_the_host(run, call):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - of several types
        REFUSED[call]("cpu")
    raised = []

    def caught():
        for _ in range(2):  # no such call is known afterwards
            try:
                REFUSED[call]("cuda")
            except type(expected.value) as error:
                raised.append(str(error))

    text = str(expected.value)
    assert run(caught).unmeasured.endswith(f" fails on CUDA: {text}")
    assert raised == [text, text]


def test_what_only_a_kernel_of_the_host_refuses_is_no_error():
    refused = (zeros(4, dtype=torch.float8_e4m3fn, device="cpu"),)
    with pytest.raises(NotImplementedError, match="\" not implemented for '"):
        torch.ops.aten.relu.default(*refused)
    assert error_on_host(torch.ops.aten.relu.default, refused, {}) is None


def test_what_is_wrong_with_one_element_alone_is_no_error(run):
    """The host gets tensors of one element, whose other errors say nothing."""

    def program():
        x = zeros(4, 8, dtype=torch.float64)
        x.new_full((3, 5), 2).index_fill(1, torch.tensor([3], device="cuda"), 1.0)
        x.index_copy(0, torch.tensor([3], device="cuda"), zeros(1, 8, dtype=torch.float64))
        torch.clamp(x, zeros(8), zeros(4, 1))
        x.mvlgamma(5)
        grad(lambda y: (y.clamp(0) - y.std(0)).sum())(x)

    assert run(program).unmeasured in (
        None,
        "no model of aten.mvlgamma.default; use backend='null' or 'cuda'",
    )
