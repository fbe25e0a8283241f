"""Decompositions and transforms on the simulated device: values, errors and what is enforced."""

import pytest
import torch
from torch import linalg

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.torch_releases import minor_version

UNIT = torch.eye(3)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (linalg.cholesky, -UNIT),
        (linalg.cholesky, torch.stack([UNIT, -UNIT])),
        (linalg.inv, torch.zeros(3, 3)),
    ],
)
def test_a_decomposition_that_fails_raises_the_host_s_error(backends, call, given):
    with pytest.raises(linalg.LinAlgError) as expected:
        call(given)
    with backends().world(), pytest.raises(linalg.LinAlgError) as found:
        call(given.cuda())
    assert str(found.value) == str(expected.value)


def test_a_backward_pass_checks_its_own_solution(run):
    def program():
        x = torch.diag(torch.tensor([1.0, 2.0])).cuda().requires_grad_()
        linalg.eigvals(x).abs().sum().backward()  # its formula solves
        assert x.grad.tolist() == [[1, 0], [0, 1]]

    run(program)


def test_only_a_window_with_a_decomposition_or_a_transform_is_not_enforced():
    backend = open_backend("simulated:A100-80GB")
    outside = backend.outside()
    outside.enter()
    try:
        weight = torch.nn.init.orthogonal_(torch.empty(4, 4, device="cuda"))
        torch.fft.fft(weight)
        linalg.eigh(weight)
        torch.testing.assert_close((weight @ weight.mT).cpu(), torch.eye(4))
        doubled, _ = PrimedBackend(backend, 0).run(lambda: weight * 2)
        known, _ = PrimedBackend(backend, 0).run(lambda: torch.fft.fft(linalg.qr(weight)[0]))
    finally:
        outside.exit()
    assert (doubled.peak_bytes, doubled.unmeasured) == (4 * 4 * 4, None)
    assert known.unmeasured == (
        "cuSOLVER takes scratch that is known on a GPU alone; keep it out of the window"
    )


NONE, ONE, THREE, NO_BATCH = (0, 0), (1, 0, 0), (3, 0, 0), (0, 5, 5)


@pytest.mark.skipif(
    minor_version(torch.__version__) >= (2, 15), reason="cuBLAS has a workspace in each call"
)
@pytest.mark.parametrize(
    ("call", "shapes", "peak"),
    [
        (torch.cholesky_inverse, [NONE], 4),
        (torch.cholesky_inverse, [THREE], 0),
        (torch.cholesky_solve, [NONE, NONE], 4),
        (torch.cholesky_solve, [ONE, ONE], 4),
        (torch.cholesky_solve, [THREE, THREE], 0),
        (torch.cholesky_solve, [NO_BATCH, NO_BATCH], 0),
        (torch.cholesky_solve, [(5, 0), (5, 5)], None),
        (linalg.householder_product, [NONE, (0,)], 0),
        (linalg.householder_product, [NO_BATCH, (0, 0)], 0),
        (linalg.householder_product, [NO_BATCH, (0, 5)], None),
    ],
)
def test_matrices_without_elements_take_what_they_take_on_the_null_device(run, call, shapes, peak):
    """The peaks are those of the null device; None where it asks a library for a size."""
    found = run(lambda: call(*[torch.empty(shape, device="cuda") for shape in shapes]))
    assert found.unmeasured is not None if peak is None else found.peak_bytes == peak


def test_householder_reflections_are_applied_to_the_values(run):
    def program():
        x = torch.randn(5, 3, device="cuda")
        factors, scales = torch.geqrf(x)
        assert factors.stride() == (1, 5)
        torch.testing.assert_close(
            linalg.householder_product(factors, scales).cpu().abs(), linalg.qr(x)[0].cpu().abs()
        )
        return torch.ormqr(factors, scales, x)

    assert run(program).unmeasured.startswith(
        "no model of aten.linalg_householder_product.default, aten.ormqr.default"
    )
