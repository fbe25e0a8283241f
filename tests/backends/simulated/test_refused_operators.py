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


def test_one_row_is_written_to_the_elements_of_a_mask(run):
    def written():
        mask = torch.arange(132, device="cuda").view(4, 33) % 3 == 0
        torch.ones(4, 33, 64, device="cuda").index_put((mask,), torch.ones(64, device="cuda"))

    seen = run(written, "A100-80GB")
    assert (seen.unmeasured, seen.peak_bytes) == (None, 69_703)  # as on the null device


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="cuda")


#: Calls that no real program makes (docs/evidence/scope.md), and the operator that has no rule.
WITHOUT_RULE = {
    "addbmm.default": lambda: torch.addbmm(ones(3, 5), ones(2, 3, 4), ones(2, 4, 5)),
    "nanmedian.default": lambda: ones(9).nanmedian(),
    "mode.default": lambda: ones(9).mode(),
    "unique_consecutive.default": lambda: ones(9).unique_consecutive(),
    "_pdist_forward.default": lambda: torch.nn.functional.pdist(ones(9, 4)),
    "trace.default": lambda: ones(9, 9).trace(),
    "_cummax_helper.default": lambda: ones(9).cummax(0),
    "ldexp.Tensor": lambda: torch.ldexp(ones(9), ones(9)),
    "renorm.default": lambda: ones(9, 4).renorm(2, 0, 1.0),
    "isin.Tensor_Tensor": lambda: torch.isin(ones(99), ones(99)),
    "linalg_solve_triangular.default": lambda: torch.linalg.solve_triangular(
        ones(3, 3), ones(3, 1), upper=True
    ),
    "nonzero.out": lambda: torch.nonzero(
        ones(9), out=torch.empty(0, dtype=torch.int64, device="cuda")
    ),
    "cat.out": lambda: torch.cat([ones(9), ones(9)], out=ones(18)),
    "kaiser_window.default": lambda: torch.kaiser_window(9, device="cuda"),
    "multi_margin_loss.default": lambda: torch.nn.functional.multi_margin_loss(
        ones(9, 4), ones(9, dtype=torch.int64)
    ),
}


@pytest.mark.parametrize("op", WITHOUT_RULE)
def test_an_operator_without_a_rule_is_refused_by_name(run, op):
    assert run(WITHOUT_RULE[op]).unmeasured == (
        f"no model of aten.{op}; use backend='null' or 'cuda'"
    )
