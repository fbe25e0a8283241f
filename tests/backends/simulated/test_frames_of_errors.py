"""An error that a program catches keeps no frame of the program alive, nor its tensors."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F

from pytest_attnmem import measure

CALLS = {
    "sizes": lambda x: x @ x[:3, :3],
    "a dtype of a target": lambda x: F.cross_entropy(x, x[0]),
    "a dtype that no kernel takes": lambda x: torch.linalg.inv(x.half()),
    "a decomposition": lambda x: torch.linalg.cholesky(-x),
    "no inverse": lambda x: torch.linalg.inv(torch.ones_like(x)),
    "devices": lambda x: x + torch.ones(4, 4, device="cpu"),
    "one value": lambda x: x.item(),
    "out of memory": lambda x: torch.empty(1 << 50, device="cuda"),
}


class Local:
    """An object of a frame, as a tensor is."""


@pytest.mark.parametrize("name", CALLS)
def test_an_error_keeps_no_frame(name):
    def program():
        local = Local()
        with pytest.raises((RuntimeError, NotImplementedError)):
            CALLS[name](torch.ones(4, 4, device="cuda"))
        return weakref.ref(local)

    def body():
        gc.disable()
        try:
            assert program()() is None
        finally:
            gc.enable()

    measure(body, backend="simulated:A100-80GB")
