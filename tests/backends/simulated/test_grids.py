"""Grids of affine maps, and samples at their places: the bytes of the null device."""

import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("kept_workspaces")


def made(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="cuda")


def sampled(x=None, grid=None, **how):
    x = (made(3, 2, 5, 6) if x is None else x).detach().requires_grad_()
    grid = (made(3, 4, 4, 2) if grid is None else grid).detach().requires_grad_()
    F.grid_sample(x, grid, **{"align_corners": True, **how}).sum().backward()


def without_cudnn():
    with torch.backends.cudnn.flags(enabled=False):
        sampled()


CALLS = {
    "a grid": (lambda: F.affine_grid(made(3, 2, 3), (3, 3, 8, 9), align_corners=False), 4392),
    "a grid of a volume": (
        lambda: F.affine_grid(made(1, 3, 4), (1, 3, 4, 8, 9), align_corners=True),
        8112,
    ),
    "samples by cuDNN": (sampled, 2600),
    "samples of elements with gaps": (lambda: sampled(made(3, 2, 10, 6)[:, :, ::2]), 3320),
    "samples at places with gaps": (
        lambda: sampled(grid=made(3, 2, 4, 4).permute(0, 2, 3, 1)),
        2984,
    ),
    "samples with other corners": (lambda: sampled(align_corners=False), 2216),
    "samples of more channels than cuDNN takes": (lambda: sampled(made(3, 1025, 5, 6)), 738_776),
    "samples without cuDNN": (without_cudnn, 2216),
}


@pytest.mark.parametrize(("call", "nbytes"), CALLS.values(), ids=CALLS)
def test_a_call_takes_what_it_does_on_the_null_device(run, call, nbytes):
    seen = run(call)
    assert (seen.peak_bytes, seen.unmeasured) == (nbytes, None)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.filterwarnings("ignore:Since version")  # about sides of 1
@pytest.mark.parametrize("size", [(2, 3, 1, 5), (2, 3, 6, 5), (2, 3, 2, 4, 5)])
def test_a_grid_and_its_gradient_have_the_values_of_the_host(returned, size, align_corners):
    def grid(device):
        theta = torch.arange(2.0 * (len(size) - 2) * (len(size) - 1), device=device)
        theta = theta.view(2, len(size) - 2, len(size) - 1).requires_grad_()
        made = F.affine_grid(theta, size, align_corners)
        made.square().sum().backward()
        return made.cpu(), theta.grad.cpu()

    found = returned(lambda: [each.tolist() for each in grid("cuda")])
    for made, expected in zip(found, grid("cpu"), strict=True):
        torch.testing.assert_close(torch.tensor(made), expected)
