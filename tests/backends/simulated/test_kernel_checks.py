"""Wrong calls that PyTorch's rules of sizes let pass raise the error of its kernels."""

import pytest
import torch
import torch.nn.functional as F

from pytest_attnmem import measure
from pytest_attnmem.backends.simulated.index_values import is_broadcast, selected

INT, HALF = torch.int64, torch.float16


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device=torch.get_default_device())


CALLS = {
    "uniform_": lambda: ones(2).uniform_(2, 1),
    "uniform_ of infinity": lambda: ones(2).uniform_(float("-inf"), 0),
    "uniform_ of half": lambda: ones(2, dtype=HALF).uniform_(-7e4, 7e4),
    "normal_": lambda: ones(2).normal_(0, -1.0),
    "normal": lambda: torch.normal(ones(2), -1.0),
    "random_": lambda: ones(2).random_(5, 1),
    "random_ to": lambda: ones(2).random_(0),
    "random_ of int8": lambda: ones(2, dtype=torch.int8).random_(0, 300),
    "randint": lambda: torch.randint(0, 300, (2,), dtype=torch.uint8),
    "randint_like": lambda: torch.randint_like(ones(2), 5, 1),
    "exponential_": lambda: ones(2).exponential_(0.0),
    "geometric_": lambda: ones(2).geometric_(1.0),
    "cauchy_": lambda: ones(2).cauchy_(0, 0),
    "log_normal_": lambda: ones(2).log_normal_(0, -1.0),
    "bernoulli_": lambda: ones(2).bernoulli_(2.0),
    "randperm": lambda: torch.randperm(3000, dtype=HALF),
    "huber_loss": lambda: F.huber_loss(ones(2), ones(2), delta=0.0),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(ones(2), ones(2), beta=-1.0),
    "celu": lambda: F.celu(ones(2), alpha=0.0),
    "leaky_relu_": lambda: F.leaky_relu_(ones(2).requires_grad_() * 1, -1.0).sum().backward(),
    "div": lambda: torch.div(ones(2), ones(2), rounding_mode="up"),
    "mvlgamma": lambda: torch.mvlgamma(ones(2), 0),
    "softmax": lambda: ones(3).softmax(1),
    "gumbel_softmax": lambda: F.gumbel_softmax(ones(3), dim=3),
    "sort": lambda: ones(3).sort(1),
    "argsort": lambda: ones(3).argsort(-2),
    "stable sort": lambda: ones(3).sort(dim=1, stable=True),
    "mode": lambda: ones(3).mode(1),
    "slice_scatter": lambda: ones(4, 4).slice_scatter(ones(2, 2)),
    "slice_scatter's dimension": lambda: ones(4, 4).slice_scatter(ones(4, 4), 2),
    "select_scatter": lambda: ones(4, 4).select_scatter(ones(2), 0, 1),
    "diagonal_scatter": lambda: ones(4, 4).diagonal_scatter(ones(2)),
    "index_add": lambda: ones(3, 2).index_add(0, ones(2, dtype=INT), ones(2)),
    "index_reduce": lambda: ones(3, 2).index_reduce(0, ones(2, dtype=INT), ones(2, 2), "max"),
    "index_put": lambda: ones(3, 2).index_put((ones(2, dtype=INT),), ones(3)),
    "index_put_": lambda: ones(3, 2).__setitem__(ones(2, dtype=INT), ones(2, 2, 2)),
    "put_": lambda: ones(3, 2).put_(ones(2, dtype=INT), ones(3)),
    "bucketize": lambda: torch.bucketize(ones(2), ones(2, 2)),
    "searchsorted": lambda: torch.searchsorted(ones(3), ones(2), side="up"),
    "segment_reduce": lambda: torch.segment_reduce(ones(4), "all", lengths=ones(4, dtype=INT)),
    "rms_norm": lambda: F.rms_norm(ones(2, 3), [2]),
    "rms_norm of nothing": lambda: F.rms_norm(ones(2, 3), []),
    "rms_norm's weight": lambda: F.rms_norm(ones(2, 3), [3], ones(2)),
    "grid_sample": lambda: F.grid_sample(ones(1, 1, 4, 4), ones(1, 2, 2, 3)),
    "conv2d's bias": lambda: F.conv2d(ones(1, 2, 4, 4), ones(2, 2, 2, 2), ones(3)),
    "conv2d's padding": lambda: F.conv2d(ones(1, 2, 4, 4), ones(2, 2, 2, 2), padding=-1),
    "conv_transpose2d's bias": (
        lambda: F.conv_transpose2d(ones(1, 2, 4, 4), ones(2, 3, 2, 2), ones(2))
    ),
    "conv2d's stride": lambda: F.conv2d(ones(1, 2, 4, 4), ones(2, 2, 2, 2), stride=0),
    "polar": lambda: torch.polar(ones(2), ones(2, dtype=INT)),
    "mean": lambda: ones(2, dtype=INT).mean(),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_error_is_that_of_the_cpu(raises_as_on_cpu, name):
    raises_as_on_cpu(CALLS[name])


def deep(dims):
    return torch.ones([1] * dims, device="cuda")


def place():
    return torch.zeros(1, dtype=INT, device="cuda")


IN_INFO = {
    "median": (lambda x: x.median(-1), "median() cannot operate on more than 25 dimensions"),
    "kthvalue": (lambda x: x.kthvalue(1), "cannot operate on more than 25 dimensions"),
    "topk": (lambda x: x.topk(1), "input tensor has too many dimensions"),
    "index_select": (
        lambda x: x.index_select(0, place()),
        "Tensor too large or too many (> 25) dimensions",
    ),
    "index_add": (lambda x: x.index_add(0, place(), x), "tensor has too many (>25) dims"),
}
OF_POINTERS = {
    "put_": (lambda x: x.put_(place(), deep(1)), "tensor has too many (>25) dims"),
    "take": (lambda x: x.take(place()), "tensor has too many (>25) dims"),
    "nonzero": (
        lambda x: x.nonzero(),
        "nonzero is not supported for tensor with more than 25 dimensions",
    ),
}


@pytest.mark.parametrize("name", {**IN_INFO, **OF_POINTERS})
def test_kernels_of_cuda_take_no_more_than_some_dimensions(run, name):
    """As on the null device; those of the CPU take more."""
    call, text = {**IN_INFO, **OF_POINTERS}[name]

    def error(dims):
        try:
            call(deep(dims))
        except RuntimeError as found:
            return str(found)
        return ""

    def program():
        short = "CUDA Tensors cannot have more than 25 dimensions" if name in IN_INFO else ""
        assert [error(dims) for dims in (24, 25, 26)] == ["", short, text]

    run(program)


def test_an_index_of_rows_is_a_vector_on_cuda(run):
    def program():
        x, rows = torch.ones(3, 2, device="cuda"), torch.zeros(2, 2, dtype=INT, device="cuda")
        with pytest.raises(RuntimeError, match=r"^Index is supposed to be an empty"):
            x.index_select(0, rows)

    run(program)


def test_calls_that_are_right_run(run):
    def program():
        x = torch.ones(4, 4, device="cuda")
        x.as_strided((2,), (1,), 14), x.as_strided((0,), (1,), 99), x.as_strided((3, 3), (1, 1))
        x.as_strided_scatter(x[:2, :2], (2, 2), (4, 1), 10), x[:, 1:].as_strided((2,), (1,))
        x.slice_scatter(x[:, :2], 1, 0, 4, 2), x.diagonal_scatter(x[0, :3], 1)
        x[torch.zeros(2, dtype=INT, device="cuda"), :] = torch.ones(1, 4, device="cuda")
        x[:, None, torch.zeros(2, dtype=INT, device="cuda")] = torch.ones(1, 1, 2, device="cuda")
        x.uniform_(0, 0), x.normal_(0, 0), x.random_(0, 1), torch.randperm(2049, dtype=HALF)
        F.rms_norm(x, [4], x[0]), F.rms_norm(x, (4, 4)), torch.tensor(2.0).sort(0)

    run(program)


def test_asking_the_cpu_draws_no_numbers():
    torch.manual_seed(0)
    expected = torch.rand(3).tolist()

    def program():
        x = torch.ones(4, device="cuda")
        for scale in range(3):
            x.uniform_(0, scale), torch.normal(x, float(scale)), torch.randint_like(x, 3 + scale)
        with pytest.raises(RuntimeError, match="std >= 0"):
            torch.normal(x, -1.0)

    torch.manual_seed(0)
    measure(program, backend="simulated:A100-40GB")
    assert torch.rand(3).tolist() == expected


@pytest.mark.parametrize(
    "index",
    [
        ([0, 1],),
        (slice(None), [0, 1, 1]),
        ([[0], [1]], [0, 1]),
        ([0, 1], slice(None), [1, 0]),
        (slice(None), slice(None), [[0]]),
    ],
)
def test_the_sizes_of_what_an_index_selects(index):
    x = torch.zeros(4, 3, 2)
    given = [torch.tensor(one) if isinstance(one, list) else None for one in index]
    chosen = tuple(torch.tensor(one) if isinstance(one, list) else one for one in index)
    assert selected(x.shape, given) == x[chosen].shape


@pytest.mark.parametrize(
    "index",
    [
        [torch.ones(4, dtype=torch.bool)],
        [None, None],
        [torch.zeros(2, dtype=INT), torch.zeros(3, dtype=INT)],
        [None, None, None, torch.zeros(1, dtype=INT)],
    ],
)
def test_sizes_that_no_index_tells(index):
    assert selected((4, 3, 2), index) is None


def test_a_tensor_is_broadcast_to_a_shape():
    found = [is_broadcast(shape, (2, 3)) for shape in ((), (1, 1, 3), (2, 2, 3), (2,))]
    assert found == [True, True, False, False]
