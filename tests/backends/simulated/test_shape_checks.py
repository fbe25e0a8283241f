"""Calls that a device refuses for sizes or shared memory raise PyTorch's own error."""

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate

CUDA = {"device": "cuda"}


def ones(*shape):
    return torch.ones(shape, **CUDA)


def places(*shape):
    return torch.zeros(shape, dtype=torch.int64, **CUDA)


def gradient_of_pixels():
    x = ones(2, 5, 4, 3).to(memory_format=torch.channels_last).requires_grad_()
    return torch.nn.functional.nll_loss(x, places(2, 4, 3))


NEEDS = "Expected reduction dim {} to have non-zero size."
PARTLY = "unsupported operation: some elements of the input tensor and the written-to tensor refer"
SHARED = "unsupported operation: more than one element of the written-to tensor refers to a single"

#: Recorded on the null device.
ERRORS = [
    (lambda: ones(3, 0, 4).max(-2), IndexError, "max(): " + NEEDS.format(1)),
    (
        lambda: torch.channel_shuffle(ones(7, 5, 4, 2).permute(3, 2, 1, 0), 2),
        RuntimeError,
        "view size is not compatible with input tensor's size and stride (at least one dimension"
        " spans across two contiguous subspaces). Use .reshape(...) instead.",
    ),
    (
        lambda: gradient_of_pixels().backward(),
        RuntimeError,
        "grad_input must be contiguous",
    ),
    (
        lambda: ones(3).multinomial(5),
        RuntimeError,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    ),
    (
        lambda: ones(3).uniform_(1, 0),
        RuntimeError,
        "uniform_ expects to return a [from, to) range, but found from=1 > to=0",
    ),
    (
        lambda: ones(3).bernoulli_(2.0),
        RuntimeError,
        "bernoulli_ expects p to be in [0, 1], but got p=2",
    ),
    (
        lambda: torch.nn.functional.max_pool2d(ones(3, 3), 2),
        RuntimeError,
        "non-empty 3D or 4D (batch mode) tensor expected for input",
    ),
    (
        lambda: torch.randperm(-1, **CUDA),
        RuntimeError,
        "Trying to create tensor with negative dimension -1: [-1]",
    ),
    (
        lambda: torch.stack([ones(3), ones(4)]),
        RuntimeError,
        "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1",
    ),
    (
        lambda: torch.nn.functional.interpolate(ones(2, 0, 4, 4), scale_factor=2),
        RuntimeError,
        "Non-empty 4D data tensor expected but got a tensor with sizes [2, 0, 4, 4]",
    ),
    (
        lambda: torch.nn.functional.interpolate(ones(2, 3, 0), scale_factor=2, mode="linear"),
        RuntimeError,
        "Input and output sizes should be greater than 0, but got input (W: 0) and output (W: 0)",
    ),
    (
        lambda: torch.nn.functional.interpolate(ones(2, 3, 4, 4), size=0),
        RuntimeError,
        "Input and output sizes should be greater than 0, but got input (H: 4, W: 4) output"
        " (H: 0, W: 0)",
    ),
    (
        lambda: torch.nn.functional.adaptive_avg_pool2d(ones(2, 3, 0, 4), 2),
        RuntimeError,
        "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but"
        " input has sizes [2, 3, 0, 4] with dimension 2 being empty",
    ),
    (
        lambda: torch.nn.functional.one_hot(places(0)),
        RuntimeError,
        "Can not infer total number of classes from empty tensor.",
    ),
    (lambda: ones(3, 0).min(1), IndexError, "min(): " + NEEDS.format(1)),
    (lambda: ones(3, 0).argmax(1), IndexError, "argmax(): " + NEEDS.format(1)),
    (lambda: ones(3, 0, 4).amax((0, -2)), IndexError, "amax(): " + NEEDS.format(-2)),
    (lambda: ones(3, 0).aminmax(dim=1), IndexError, "aminmax: " + NEEDS.format(1)),
    (lambda: ones(3, 0).nanmedian(1), IndexError, "median(): " + NEEDS.format(1)),
    (lambda: ones(3, 0).kthvalue(1, 1), IndexError, "kthvalue(): " + NEEDS.format(1)),
    (
        lambda: ones(0).max(),
        RuntimeError,
        "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the"
        " reduction dim with the 'dim' argument.",
    ),
    (
        lambda: ones(0).argmin(),
        IndexError,
        "argmin(): Expected reduction dim to be specified for input.numel() == 0.",
    ),
    (
        lambda: ones(0, 5)[[0, 0]],
        IndexError,
        "index is out of bounds for dimension with size 0",
    ),
    (
        lambda: ones(0).put_(places(1), ones(1)),
        IndexError,
        "put_(): Tried to put elements into an empty tensor",
    ),
    (
        lambda: torch.cat([ones(2), ones()]),
        RuntimeError,
        "zero-dimensional tensor (at position 1) cannot be concatenated",
    ),
    (
        lambda: torch.cat([ones(4, 4), ones(0), ones(4)]),
        RuntimeError,
        "Tensors must have same number of dimensions: got 2 and 1",
    ),
    (
        lambda: torch.cat([ones(4, 4), ones(2, 4), ones(3, 3)]),
        RuntimeError,
        "Sizes of tensors must match except in dimension 0. Expected size 4 but got size 3 for"
        " tensor number 2 in the list.",
    ),
    (
        lambda: ones(8, 32) + ones(5),
        RuntimeError,
        "The size of tensor a (32) must match the size of tensor b (5) at non-singleton"
        " dimension 1",
    ),
    (lambda: torch._foreach_add_([ones(2), ones(1).expand(3)], 1), RuntimeError, SHARED),
    (lambda: torch.clamp(ones(3), 0, out=ones(1).expand(3)), RuntimeError, SHARED),
    (lambda: ones(1).expand(3).index_add_(0, places(3), ones(3)), RuntimeError, SHARED),
    (lambda: (lambda x: x[:8].mul_(x[1:9]))(ones(9)), RuntimeError, PARTLY),
    (lambda: (lambda x: x[:8].copy_(x[1:9]))(ones(9)), RuntimeError, PARTLY),
    (lambda: (lambda x: torch.add(x[:8], 1, out=x[1:9]))(ones(9)), RuntimeError, PARTLY),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_what_a_device_refuses_raises_its_error(run, call, kind, text):
    def program():
        with pytest.raises(kind) as found:
            call()
        assert type(found.value) is kind
        assert str(found.value).startswith(text)

    assert run(program).unmeasured is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: ones(0, 5)[places(0)],
        lambda: ones(3, 0)[places(2)],
        lambda: ones(3, 0).max(0),
        lambda: torch.cat([ones(2, 2), ones(0)]),
        lambda: (lambda x: x.__setitem__(slice(None), x[:1]))(ones(1, 4).expand(3, 4)),
        lambda: (lambda x: x[:4].add_(x[4:]))(ones(8)),
        lambda: (lambda x: x.add_(x))(ones(8)),
        lambda: torch._foreach_zero_([ones(1).expand(3)]),
    ],
)
def test_what_a_device_runs_has_a_number(run, call):
    assert run(call).unmeasured is None


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            lambda: ones(1, 8).expand(8, 8).addmm_(ones(8, 8), ones(8, 8)),
            "a write into a tensor whose elements share memory fails on CUDA",
        ),
        (
            lambda: ones(0, 5).index_put_((places(2),), ones()),
            "a write by an index into a dimension of size 0 fails on CUDA",
        ),
        (
            lambda: ones(0, 5).gather(0, places(1, 5)),
            "an index along a dimension of size 0 fails on CUDA",
        ),
        (lambda: ones(3) | True, "aten.bitwise_or.Tensor of float32 fails on CUDA"),
        (lambda: ones(3) << 1, "aten.__lshift__.Scalar of float32 fails on CUDA"),
    ],
)
def test_what_a_device_refuses_after_it_allocates_is_not_enforced(run, call, reason):
    def program():
        with pytest.raises((RuntimeError, CannotSimulate)):
            call()

    assert reason in run(program).unmeasured


def test_numbers_as_limits_cast_the_input_first(run):
    def program():
        torch.arange(1024, device="cuda").clamp(0.5)

    assert run(program).peak_bytes == 1024 * (8 + 4 + 4)
