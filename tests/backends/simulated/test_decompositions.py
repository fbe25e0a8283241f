"""Decompositions and transforms on the simulated device: values, errors and what is enforced."""

import pytest
import torch
from torch import linalg

from pytest_attnmem.backends.primed_backend import PrimedBackend

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


@pytest.mark.parametrize("anywhere", ["outside"], indirect=True)
def test_only_a_window_with_a_decomposition_or_a_transform_is_not_enforced(anywhere, kept_session):
    backend, _ = kept_session
    weight = torch.nn.init.orthogonal_(torch.empty(4, 4, device="cuda"))
    torch.fft.fft(weight)
    linalg.eigh(weight)
    torch.testing.assert_close((weight @ weight.mT).cpu(), torch.eye(4))
    doubled, _ = PrimedBackend(backend, 0).run(lambda: weight * 2)
    known, _ = PrimedBackend(backend, 0).run(lambda: torch.fft.fft(linalg.qr(weight)[0]))
    assert (doubled.peak_bytes, doubled.unmeasured) == (4 * 4 * 4, None)
    assert known.unmeasured == (
        "cuSOLVER takes scratch that is known on a GPU alone; keep it out of the window"
    )
