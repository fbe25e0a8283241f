"""Reasons for operators that have no answer yet."""

import re
from contextlib import suppress

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import gaussian_nll_loss

from pytest_attnmem.errors import CannotSimulate


def test_batch_norm_by_cudnn(run):
    def trained():
        torch.nn.BatchNorm2d(4, device="cuda")(torch.empty(2, 4, 8, 8, device="cuda"))

    assert run(trained).unmeasured == (
        "no model of aten.batch_norm.default by cuDNN in training; use backend='null' or 'cuda'"
    )


def test_batch_norm_without_cudnn(run):
    def trained():
        layer = torch.nn.BatchNorm2d(4, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            return layer(torch.empty(2, 4, 8, 8, device="cuda", dtype=torch.bfloat16))

    assert run(trained).unmeasured is None


def test_the_gradient_of_renorm(run):
    def trained():
        return torch.renorm(torch.empty(8, 8, device="cuda", requires_grad=True), 2, 0, 1.0)

    assert run(trained).unmeasured == (
        "no model of the backward of aten.renorm.default; use backend='null' or 'cuda'"
    )


def test_an_index_in_the_order_of_columns(run):
    def read():
        x = torch.ones(6, device="cuda")
        return x[torch.nonzero_static(torch.ones(6, 6, device="cuda"), size=20)]

    assert run(read).unmeasured == ("no model of aten.index.Tensor; use backend='null' or 'cuda'")


def test_an_operator_without_a_shape_rule(run):
    def decomposed():
        with suppress(CannotSimulate):
            torch.histogram(torch.ones(4, device="cuda"), 3)

    assert run(decomposed).unmeasured.startswith(
        "aten.histogram.bin_ct, which PyTorch cannot run without data, needs the"
    )


def nll(loss, temporary):
    x, y = (torch.ones(100, device="cuda") for _ in range(2))
    variance = None if temporary else x.exp()
    return loss(x, y, x.exp() if variance is None else variance)


def by_hand(input, target, variance):
    assert not torch.any(variance < 0)
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=1e-6)
    return (0.5 * (torch.log(variance) + (input - target) ** 2 / variance)).mean()


@pytest.mark.parametrize("temporary", [True, False])
def test_a_function_that_lets_go_of_an_argument_of_its_caller(run, temporary):
    """Where Dynamo evaluates frames, each frame holds its arguments until it ends."""
    found = run(lambda: nll(torch.nn.functional.gaussian_nll_loss, temporary))
    assert found.unmeasured is None
    assert found.peak_bytes == run(lambda: nll(by_hand, temporary)).peak_bytes
    assert found.peak_bytes in (2400, 2800)


def test_the_same_function_as_the_program_imported_it(run):
    assert run(lambda: nll(gaussian_nll_loss, True)).unmeasured == (
        "no model of torch.nn.functional.gaussian_nll_loss; use backend='null' or 'cuda'"
    )


def test_a_mask_of_bytes_reads_as_one_of_booleans(run):
    def read(dtype):
        x = torch.ones(64, 33, device="cuda", requires_grad=True)
        x[(x[:, 0] > 0).to(dtype)].sum().backward()

    seen = {dtype: run(lambda dtype=dtype: read(dtype)) for dtype in (torch.bool, torch.uint8)}
    assert [found.peak_bytes for found in seen.values()] == [27_465] * 2


def test_a_gradient_that_is_sparse(run):
    def embedded():
        table = torch.nn.Embedding(10, 4, sparse=True, device="cuda")
        with suppress(CannotSimulate):
            table(torch.zeros(3, dtype=torch.int64, device="cuda")).sum().backward()

    assert run(embedded).unmeasured == (
        "aten._sparse_coo_tensor_with_dims_and_tensors.default at"
        f" test_refused_operators.py:{embedded.__code__.co_firstlineno + 3}"
        " makes a sparse tensor, which cannot be simulated"
    )


@pytest.mark.parametrize(
    "write", [torch.Tensor.add_, torch.Tensor.copy_, torch.Tensor.mul_], ids=lambda f: f.__name__
)
def test_a_write_to_elements_that_share_memory_fails_as_on_a_device(run, write):
    def expanded():
        x = torch.ones(1, 4, device="cuda").expand(3, 4)
        x.fill_(2)  # allowed, as it writes one number
        with pytest.raises(RuntimeError, match=r"^unsupported operation: more than one element"):
            write(x, torch.ones(3, 4, device="cuda"))

    assert run(expanded).unmeasured is None


def test_one_row_is_written_to_the_elements_of_a_mask(run):
    def written():
        mask = torch.arange(132, device="cuda").view(4, 33) % 3 == 0
        torch.ones(4, 33, 64, device="cuda").index_put((mask,), torch.ones(64, device="cuda"))

    seen = run(written, "A100-80GB")
    assert (seen.unmeasured, seen.peak_bytes) == (None, 69_703)  # as on the null device


@pytest.mark.parametrize(
    ("program", "refused"),
    [
        (lambda: torch.cuda.CUDAGraph(), "a CUDA graph at {} cannot be simulated"),
        (
            lambda: FakeTensorMode().from_tensor(torch.ones(2, device="cuda")),
            "FakeTensorMode, as in torch.export, at {} cannot be simulated",
        ),
        (
            lambda: torch.quantize_per_tensor(torch.ones(2, device="cuda"), 0.1, 0, torch.qint8),
            "aten.quantize_per_tensor.default at {} makes a quantized tensor, which cannot be"
            " simulated",
        ),
        (
            lambda: torch.quantize_per_tensor(torch.ones(2, device="cpu"), 0.1, 0, torch.qint8),
            "aten.quantize_per_tensor.default at {} makes a quantized tensor, which cannot be"
            " simulated",
        ),
    ],
    ids=["graph", "fakes", "quantized", "quantized on the host"],
)
def test_what_no_simulation_follows_ends_in_one_line(run, program, refused):
    text = refused.format(f"test_refused_operators.py:{program.__code__.co_firstlineno}")

    def tried():
        with pytest.raises(CannotSimulate, match=f"^{re.escape(text)}$"):
            program()

    assert run(tried).unmeasured == text


@pytest.mark.parametrize("make", [torch.nn.LazyLinear, torch.nn.LazyBatchNorm1d])
def test_a_lazy_module_ends_in_one_line(run, make):
    said = "a lazy module, whose parameters have no size yet, cannot be simulated; give the sizes"

    def program():
        with pytest.raises(CannotSimulate, match=said):
            make(4, device="cuda") if make is torch.nn.LazyLinear else make(device="cuda")

    assert run(program).unmeasured == said
    assert torch.nn.LazyLinear(2)(torch.ones(1, 3)).shape == (1, 2)  # as before, outside
