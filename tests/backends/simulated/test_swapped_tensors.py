"""Tensors that swap their contents, and modules whose parameters are others after a move."""

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("kept_workspaces")

OVERWRITE = torch.__future__.set_overwrite_module_params_on_conversion
SWAP = torch.__future__.set_swap_module_params_on_conversion


@pytest.fixture(params=[OVERWRITE, SWAP], ids=["overwrite", "swap"])
def moves_by(request):
    """Sets a way of ``Module.to`` to convert parameters; yields it."""
    request.param(True)
    yield request.param
    request.param(False)


def swapped():
    x, y = nn.Parameter(torch.ones(4, device="cuda")), torch.zeros(2, device="cpu")
    torch.utils.swap_tensors(x, y)
    return [(isinstance(t, nn.Parameter), t.device.type, t.tolist()) for t in (x, y)]


SWAPPED = [(False, "cpu", [0, 0]), (True, "cuda", [1, 1, 1, 1])]


def test_a_tensor_of_the_device_swaps_with_one_of_the_host(run):
    found = []
    measured = run(lambda: found.append(swapped()))
    assert found == [SWAPPED]
    assert (measured.peak_bytes, measured.unmeasured) == (16, None)


def test_a_module_that_moves_inside_a_window_keeps_what_pytorch_keeps(run, moves_by):
    found = []

    def program():
        layer = nn.Linear(64, 64, device="cuda")
        layer(torch.ones(2, 64, device="cuda")).sum().backward()
        before = layer.weight
        layer.half()
        found.extend([layer.weight is before, layer.weight.grad.dtype, before.dtype])

    peak = run(program).peak_bytes
    if moves_by is SWAP:
        assert (found, peak) == ([True, torch.float16, torch.float16], 49_792)
    else:
        assert (found, peak) == ([False, torch.float16, torch.float32], 49_920)
