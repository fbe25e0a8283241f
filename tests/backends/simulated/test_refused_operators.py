"""Reasons for operators that have no answer yet."""

from contextlib import suppress

import pytest
import torch

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
        "aten.histogram.bin_ct cannot be simulated: PyTorch has no rule of its shapes"
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
        "aten._sparse_coo_tensor_with_dims_and_tensors.default of a sparse tensor cannot be"
        " simulated; use backend='null' or 'cuda'"
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


def test_a_graph_is_refused_in_one_line(run):
    def captured():
        with suppress(CannotSimulate):
            torch.cuda.CUDAGraph()

    line = captured.__code__.co_firstlineno + 2
    assert run(captured).unmeasured == (
        f"a CUDA graph at test_refused_operators.py:{line} cannot be simulated"
    )
