"""What deterministic algorithms allocate besides, and the calls that have none."""

import warnings

import pytest
import torch
import torch.nn.functional as F

NO_ALGORITHM = " does not have a deterministic implementation, but you set"


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def made(*shape, **options):
    return torch.ones(shape, device="cuda", **options)


def places(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="cuda")


def sampled():
    image = made(1, 1, 4, 4).requires_grad_()
    return F.grid_sample(image, made(1, 2, 2, 2), align_corners=False)


def test_a_target_that_grows_is_filled_through_an_element(run):
    assert run(lambda: torch.empty(0, device="cuda").resize_(700)).peak_bytes == 4 * 700 + 4
    assert run(lambda: torch.arange(5, device="cuda")).peak_bytes == 8 * 5 + 8


def test_new_memory_may_stay_as_it_is(run):
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert run(lambda: torch.arange(5, device="cuda")).peak_bytes == 8 * 5
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = before


def test_an_operator_that_nobody_compared_is_refused(run):
    assert run(lambda: torch.median(made(9))).unmeasured == (
        "no model of aten.median.default; use backend='null' or 'cuda'"
    )


@pytest.mark.parametrize(
    ("program", "kernel"),
    [
        (lambda: made(5).put_(places(2), made(2)), "put_"),
        (lambda: made(5).index_reduce(0, places(2), made(2), "amax"), "index_reduce_cuda"),
        (
            lambda: made(5).scatter_reduce(0, places(2), made(2), "prod"),
            "scatter_reduce_cuda_prod_",
        ),
        (lambda: made(5).median(0), "median CUDA with indices output"),
        (lambda: F.nll_loss(made(1, 3, 2), places(1, 2)), "nll_loss2d_forward_out_cuda_template"),
        (lambda: places(5).bincount(made(5)), "_bincount_cuda"),
        (
            lambda: F.adaptive_avg_pool2d(made(1, 1, 8, 8).requires_grad_(), 3).sum().backward(),
            "adaptive_avg_pool2d_backward_cuda",
        ),
        (lambda: sampled().sum().backward(), "grid_sampler_2d_backward_cuda"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_without_an_algorithm_raises_as_on_cuda(run, program, kernel):
    def tried():
        with pytest.raises(RuntimeError, match=f"^{kernel}{NO_ALGORITHM}"):
            program()

    run(tried)

    def warned():
        torch.use_deterministic_algorithms(True, warn_only=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program()
        texts = [str(one.message) for one in caught]
        assert [text.partition(NO_ALGORITHM)[0] for text in texts if NO_ALGORITHM in text] == [
            kernel
        ]

    run(warned)


def test_such_calls_have_one_where_there_is_nothing_to_order(run):
    def program():
        places(5).bincount()
        made(5).scatter_reduce(0, places(2), made(2), "amax")
        F.nll_loss(made(1, 3, 2), places(1, 2), reduction="none")
        made(5).mode()

    assert run(program).unmeasured is None


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
@pytest.mark.parametrize(
    ("reduce", "unmeasured"),
    [
        ("amin", None),
        ("mean", "no model of aten.index_reduce.default; use backend='null' or 'cuda'"),
    ],
)
def test_rows_that_are_reduced_with_a_warning_are_measured_apart_from_means(
    run, reduce, unmeasured
):
    def program():
        torch.use_deterministic_algorithms(True, warn_only=True)
        made(5, 5).index_reduce(1, places(10), made(5, 10), reduce)

    found = run(program)
    assert found.unmeasured == unmeasured
    assert unmeasured or found.peak_bytes == 4 * (25 + 50 + 25) + 8 * 10


def test_the_program_goes_on_unmeasured_after_a_caught_error(run):
    def program():
        with pytest.raises(RuntimeError):
            made(5).put_(places(2), made(2))

    assert run(program).unmeasured == (
        "aten.put_.default has no deterministic algorithm on CUDA, and fails"
    )


def test_scattered_values_are_those_of_the_host(run):
    generator = torch.Generator().manual_seed(0)
    x, source = (torch.randn(shape, generator=generator) for shape in ((6, 5), (4, 5)))
    index = torch.randint(6, (4, 5), generator=generator)
    rows = index[:, 0]

    def changed(device):
        a, b, i, r = (each.to(device) for each in (x, source, index, rows))
        yield a.scatter_add(0, i, b)
        yield a.clone().scatter_add_(0, i, b)
        yield a.scatter_reduce(0, i, b, "mean", include_self=False)
        yield a.scatter_reduce(0, i, b, "sum")
        yield a.index_add(0, r, b, alpha=3)
        yield a.index_copy(0, torch.arange(4, device=device), b)
        leaf = a.clone().requires_grad_()
        leaf.gather(0, i).sum().backward()
        yield leaf.grad

    expected = [value.flatten().tolist() for value in changed("cpu")]

    def program():
        for found, value in zip(changed("cuda"), expected, strict=True):
            assert found.flatten().tolist() == pytest.approx(value, rel=1e-5)

    assert run(program).unmeasured is None


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (lambda: made(5, 3).scatter(0, places(2, 3), made(2, 3).double()), "self.dtype"),
        (lambda: made(5, 3).index_add(0, places(2), made(1, 3)), "Number of indices"),
        (lambda: made(5, 3).scatter_add(0, places(2, 3), made(1, 3)), "[Ss]ize|index"),
        (lambda: made().index_copy(0, places(1), made()), "too many indices for tensor of"),
    ],
)
def test_a_call_that_is_wrong_raises(run, program, text):
    def tried():
        with pytest.raises((RuntimeError, IndexError), match=text):
            program()

    run(tried)
