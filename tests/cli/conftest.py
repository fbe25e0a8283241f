"""What commands print, and how they refuse; and kernels without a command."""

import json

import pytest
import torch

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.cli import main
from pytest_attnmem.kernels.registry import kernel_named


@pytest.fixture
def printed_json(capsys):
    """Returns the JSON that a command prints, and nothing else."""

    def printed(*arguments, code=0):
        assert main([*arguments]) == code
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out)

    return printed


@pytest.fixture
def refusal(capsys):
    """Returns the one line that a command says when it ends with 2 and prints nothing."""

    def said(command, *arguments):
        assert main([command, *arguments]) == 2
        out, err = capsys.readouterr()
        start = f"attnmem {command}: "
        assert (out, err[: len(start)], err.count("\n"), err[-1]) == ("", start, 1, "\n")
        return err[len(start) : -1]

    return said


def on_simulated(device, name, shapes, dtype, backward):
    """Runs a kernel on q, k and v; returns the measurement and the bytes that were reserved."""
    backend = open_backend(f"simulated:{device}")
    backend.prime()
    attention = kernel_named(name).attention

    def forward():
        return attention(*qkv)

    def training():
        attention(*qkv).sum().backward()

    with backend.world(), torch.set_grad_enabled(backward):
        qkv = [
            torch.empty(shape, device="cuda", dtype=dtype, requires_grad=backward)
            for shape in shapes
        ]
        seen, _ = PrimedBackend(backend, 0).run(training if backward else forward)
        return seen, torch.cuda.max_memory_reserved()
