"""Two places where PyTorch itself needs more memory than it could.

Source: PyTorch (BSD-3). pytorch#125511: a compiled step of RAdam or NAdam holds tensors longer than
the plain step, also with the backend ``eager``, which changes no operator. pytorch#139612: the
``math`` backend of attention uses a softmax that looks for rows without a key, in tensors of the
size of the scores.
"""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own functions
#: Bytes of one parameter.
P = 32 * 32 * 4


def step(kind):
    """Returns the step of an optimizer over ten parameters with gradients."""
    parameters = [torch.ones(32, 32) for _ in range(10)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return kind(parameters, lr=0.1, foreach=True).step


@pytest.mark.parametrize("kind", [torch.optim.RAdam, torch.optim.NAdam])
def test_compiled_step(attnmem, kind):
    for name, run, tensors in (
        ("plain", step(kind), 10),
        ("compiled", torch.compile(step(kind), backend="eager"), 20),
    ):
        run(), run()  # the state, and the compilation
        with attnmem.region(name, backend="cpu") as region:
            run()
        assert region.measurement.peak_bytes // P == tensors


def math(q, k, v):
    """Returns attention by PyTorch's ``math`` backend."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v)


def formula(q, k, v):
    """Returns attention as the formula is written."""
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v


@torch.no_grad()
def test_safe_softmax(attnmem, qkv):
    q, k, v = qkv(B=1, H=8, N=1024, d=64)
    scores = 8 * 1024 * 1024
    for attention, bytes_a_score in ((formula, 2 * 4), (math, 2 * 4 + 1)):  # and a bool
        with attnmem.region(attention.__name__, backend="simulated:A100-80GB") as region:
            attention(q, k, v)
        assert region.measurement.peak_bytes // scores == bytes_a_score
