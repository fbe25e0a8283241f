"""Tracers that a program calls, and C++ code that reads data, are refused in one line."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from pytest_attnmem.errors import CannotSimulate


def traced():
    make_fx(lambda x: x.sin().cos())(torch.ones(3, device="cuda"))


def checked():
    torch.library.opcheck(torch.ops.aten.sin.default, (torch.ones(3, device="cuda"),))


def drawn():
    torch.empty(0, device="cuda")
    torch.quasirandom.SobolEngine(3).draw(4)


def mapped():
    torch.vmap(lambda x: torch.linspace(x, 3.0, 5, device="cuda"))(torch.ones(3, device="cuda"))


@pytest.mark.parametrize(
    ("program", "refusal"),
    [
        (traced, "make_fx at {}:11 cannot be simulated; use backend='null' or 'cuda'"),
        (
            checked,
            "torch.library.opcheck at {}:15 cannot be simulated; use backend='null' or 'cuda'",
        ),
        (
            drawn,
            "torch._sobol_engine_initialize_state_ at {}:20, whose C++ code reads the data of a"
            " tensor, cannot be simulated; use backend='cpu' for this test",
        ),
        (
            mapped,
            "torch.linspace at {}:24, whose C++ code needs a CUDA device, cannot be simulated; use"
            " backend='null' or 'cuda'",
        ),
    ],
)
def test_it_is_refused(run, program, refusal):
    with pytest.raises(CannotSimulate) as caught:
        run(program)
    assert str(caught.value) == refusal.format("test_refused_tracers.py")


def test_one_device_has_what_a_build_without_cuda_lacks(run):
    def program():
        with torch.cuda.nvtx.range("step"):
            layer = torch.nn.DataParallel(torch.nn.Linear(16, 4, device="cuda"))
            assert layer(torch.ones(2, 16, device="cuda")).shape == (2, 4)
        with pytest.raises(ValueError, match="enable_timing=True"):
            torch.cuda.Event().elapsed_time(torch.cuda.Event())
        with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
            torch.ones(1, device="cuda").data = 3

    assert run(program).peak_bytes == (64 + 4 + 32 + 8) * 4
